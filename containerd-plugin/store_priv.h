// SPDX-License-Identifier: Apache-2.0
/* Internal functions that the store's files share. */
#ifndef BOOTSEER_CONTAINERD_PLUGIN_STORE_PRIV_H
#define BOOTSEER_CONTAINERD_PLUGIN_STORE_PRIV_H

#include <pthread.h>
#include <sqlite3.h>

#include "containerd-plugin/store.h"

enum query {
	QUERY_BEGIN,
	QUERY_BEGIN_READ,
	QUERY_COMMIT,
	QUERY_ROLLBACK,
	QUERY_BY_NAME,
	QUERY_BY_ID,
	QUERY_PAGE,
	QUERY_INSERT,
	QUERY_RENAME,
	QUERY_SET_LABELS,
	QUERY_HAS_CHILD,
	QUERY_DELETE,
	QUERY_SET_USAGE,
	QUERY_SET_UNPACKED,
	QUERY_SET_TREE,
	QUERY_SET_TOP,
	QUERY_GARBAGE,
	QUERY_GARBAGE_ADD,
	QUERY_GARBAGE_FOLDER,
	QUERY_GARBAGE_DONE,
	QUERY_HAS_ID,
	QUERY_IDS,
	QUERY_COUNT_,
};

struct store {
	/* Held for a whole transaction, as all threads share one connection. Protects the
	 * members below. */
	pthread_mutex_t lock;
	sqlite3 *db;
	sqlite3_stmt *queries[QUERY_COUNT_];
	uint64_t next_id;
	bool is_new;
	char instance[33];
};

/* A statement with its parameters reset; bind from 1. */
sqlite3_stmt *store_query(struct store *s, enum query q);

/* Run a statement that returns no rows. -errno with SQLite's reason. */
int store_run(struct store *s, sqlite3_stmt *st, struct error *err) MUST_CHECK;

/* Step to the next row: 1: there is one; 0: no more; -errno. */
int store_step(struct store *s, sqlite3_stmt *st, struct error *err) MUST_CHECK;

/* store_begin() takes the lock and begins a transaction; store_end() commits it when `rc` is
 * 0, else rolls back, and releases the lock. Returns the final result. */
int store_begin(struct store *s, struct error *err) MUST_CHECK;
int store_end(struct store *s, int rc, struct error *err) MUST_CHECK;
int store_begin_read(struct store *s, struct error *err) MUST_CHECK;
int store_end_read(struct store *s, int rc) MUST_CHECK;

/* Read the row of QUERY_BY_NAME, QUERY_BY_ID or QUERY_PAGE. */
int store_row(sqlite3_stmt *st, struct snapshot *ret,
	      struct error *err) MUST_CHECK;

#endif
