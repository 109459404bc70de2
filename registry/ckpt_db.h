// SPDX-License-Identifier: Apache-2.0
/*
 * Loads and saves of checkpoints, in the database: of one start with its nodes and rounds,
 * and as sums, one of each start and stage, which the service keeps up to date, so that a
 * list of many starts reads no event.  All of it blocks: threads of the pool only.
 */
#ifndef BOOTSEER_REGISTRY_CKPT_DB_H
#define BOOTSEER_REGISTRY_CKPT_DB_H

#include "profiler/start_ckpt.h"
#include "registry/db.h"
#include "registry/stage_db.h"

/* A start and what it loaded and saved, of all its events, also of those after training
 * began. */
struct ckpt_found {
	struct job_start head; /* its texts are this struct's */
	char *texts[3];
	struct start_set *set; /* only its names */
	struct start_node *nodes;
	size_t n_nodes;
	struct start_ckpt ckpt; /* its nodes are indices of `nodes` */
	int64_t left_out;       /* events past the bounds of a set */
};

/* `*ret` is the caller's, for ckpt_found_fini(), also after a failure.  -ENOENT. */
int ckpt_db_get(struct db *db, int64_t id, struct ckpt_found *ret,
		struct error *err) MUST_CHECK;
void ckpt_found_fini(struct ckpt_found *f);

/* Memory that it takes, about. */
size_t ckpt_found_bytes(const struct ckpt_found *f);

/* The start's revision, which grows by one with each batch of a node.  -ENOENT. */
int ckpt_db_revision(struct db *db, int64_t id, int64_t *ret,
		     struct error *err) MUST_CHECK;

/* Starts that sent something since their loads and saves were summed up, a minute ago at
 * least; the number of ids, or -errno.  now: seconds since 1970. */
int ckpt_db_due(struct db *db, int64_t now, int64_t *ids, size_t max,
		struct error *err) MUST_CHECK;

/* Keep the sums of a start, unless those of a later revision are there. */
int ckpt_db_put(struct db *db, int64_t now, const struct ckpt_found *f,
		struct error *err) MUST_CHECK;

/* All loads or all saves of a start; texts are borrowed. */
struct ckpt_row {
	int64_t start, attempt;
	int64_t last; /* when the last run ended, seconds since 1970 */
	int64_t rounds, nodes, runs, open, bytes;
	int64_t job_ms, run_ms, wait_ms, queue_ms, storage_ms, network_ms;
	int64_t median_ms, max_ms, slow; /* of nodes; slow: how many were */
	const char *job, *image, *label, *stage;
	const char *slowest; /* node */
};

struct ckpt_query {
	int64_t since; /* seconds since 1970, of `last` */
	struct job_filter filter;
	int64_t limit; /* rows */
};

/* The latest first. */
int ckpt_db_list(struct db *db, const struct ckpt_query *q,
		 int (*each)(void *arg, const struct ckpt_row *row), void *arg,
		 struct error *err) MUST_CHECK;

#endif
