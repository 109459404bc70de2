// SPDX-License-Identifier: Apache-2.0
/*
 * Recordings and hot lists in the database.  All of it blocks: threads of the
 * pool only.
 */
#ifndef BOOTSEER_REGISTRY_TRACE_DB_H
#define BOOTSEER_REGISTRY_TRACE_DB_H

#include "common/buf.h"
#include "recorder/trace.h"
#include "registry/db.h"
#include "registry/retention.h"

struct trace_limits {
	uint64_t trace_max;   /* bytes of one recording, encoded */
	uint64_t memory_max;  /* and decoded */
	uint64_t node_bytes;  /* of all recordings of one node */
	uint64_t node_hourly; /* starts that a node sends within an hour */
	uint64_t repo_bytes, total_bytes;
	int64_t retention_s;
};

/* How near; as Bootseer-Match names it. */
enum match {
	MATCH_OWN,
	MATCH_RELATIVE,
	MATCH_WORKLOAD,
	MATCH_FAR,
};

struct start_query {
	const char *image, *workload;
	const char *repo;   /* "" unknown */
	const char *prefix; /* of what the asker may see; "" all */
	bool exact;
};

struct start {
	int64_t id, version, votes, newest, used;
	enum match match;
	bool wanted; /* more recordings of what was asked for */
};

/* The nearest start; also notes that it was used.  -ENOENT: `wanted` is set. */
int trace_db_find(struct db *db, const struct start_query *q, int64_t now,
		  struct start *ret, struct error *err) MUST_CHECK;

/* A recording and who sent it. */
struct trace_recording {
	const char *repo, *image, *workload;
	const char *token, *node; /* the voter */
	const void *data;
	size_t len;
	const struct trace_info *info;
	uint64_t memory; /* bytes, decoded */
	uint64_t entries;
};

/* Judge what would become of the recording now; the votes are only looked at. */
int trace_db_judge(struct db *db, const struct trace_recording *r, int64_t now,
		   enum verdict *ret, struct error *err) MUST_CHECK;

/*
 * Store it, with the bounds of `l`.  -EDQUOT: this node has sent too many within
 * the hour.  `*ret_evicted`: starts that left to make room.
 */
int trace_db_put(struct db *db, const struct trace_limits *l,
		 const struct trace_recording *r, int64_t now,
		 enum verdict *ret, unsigned int *ret_evicted,
		 struct error *err) MUST_CHECK;

/* A merged list, as the database keeps it. */
struct hot_row {
	int64_t version, made_ms, votes;
	struct buf trace;
};
/* -ENOENT */
int trace_db_hot(struct db *db, int64_t start, struct hot_row *ret,
		 struct error *err) MUST_CHECK;
/* A start that has gone meanwhile is no error. */
int trace_db_hot_put(struct db *db, int64_t start, const struct hot_row *row,
		     struct error *err) MUST_CHECK;

/* The votes of a start, smallest first; release with votes_free(). */
int trace_db_votes(struct db *db, int64_t start, struct vote ret[VOTES_MAX],
		   size_t *ret_n, struct error *err) MUST_CHECK;
void votes_free(struct vote *v, size_t n);
/* The recording of one of them; -ENOENT: it has gone. */
int trace_db_vote(struct db *db, int64_t start, const struct vote *v,
		  struct buf *ret, struct error *err) MUST_CHECK;

/* A line of a list. */
struct start_line {
	const char *repo, *image, *workload;
	int64_t votes, bytes, newest, used, created, window_ms, ready_ms,
		entries, truncated;
};
/* List the starts of an image (`image` not NULL), or of a repository. */
int trace_db_list(struct db *db, const char *image, const char *repo,
		  const char *prefix, int64_t limit,
		  int (*each)(void *arg, const struct start_line *l), void *arg,
		  struct error *err) MUST_CHECK;

/* The newest start of each repository and workload, newest first; none of stores. */
#define DONOR_LINES_MAX 16384u
struct donor_line {
	const char *repo;
	struct start start;
};
int trace_db_donors(struct db *db,
		    int (*each)(void *arg, const struct donor_line *l),
		    void *arg, struct error *err) MUST_CHECK;

/* The number of starts forgotten; `workload` and `repo` may be "". */
int trace_db_forget(struct db *db, const char *image, const char *workload,
		    const char *repo, const char *prefix,
		    struct error *err) MUST_CHECK;

struct trace_totals {
	uint64_t starts, votes, bytes;
};
/* Forget what is too old, then what is too much. */
int trace_db_sweep(struct db *db, const struct trace_limits *l, int64_t now,
		   struct trace_totals *ret, unsigned int *ret_evicted,
		   struct error *err) MUST_CHECK;

int trace_db_ping(struct db *db, struct error *err) MUST_CHECK;

#endif
