// SPDX-License-Identifier: Apache-2.0
/*
 * Recordings and merged lists in the database. All functions block: call them on pool threads only.
 */
#ifndef BOOTSEER_REGISTRY_TRACE_DB_H
#define BOOTSEER_REGISTRY_TRACE_DB_H

#include "common/buf.h"
#include "recorder/trace.h"
#include "registry/db.h"
#include "registry/retention.h"

struct trace_limits {
	uint64_t trace_max;   /* bytes of one encoded recording */
	uint64_t memory_max;  /* bytes of one decoded recording */
	uint64_t node_bytes;  /* bytes of all recordings of one node */
	uint64_t node_hourly; /* recordings that a node may send in an hour */
	uint64_t repo_bytes, total_bytes;
	int64_t retention_s;
};

/* How close the found start is to the requested one; named in the header Bootseer-Match. */
enum match {
	MATCH_OWN,
	MATCH_RELATIVE,
	MATCH_WORKLOAD,
	MATCH_FAR,
};

struct start_query {
	const char *image, *workload;
	const char *repo;   /* "": unknown */
	const char *prefix; /* repositories that the caller may see; "": all */
	bool exact;
};

struct start {
	int64_t id, version, votes, newest, used;
	enum match match;
	bool wanted; /* more recordings of the requested start are wanted */
};

/* Find the closest start, and store that it was used. -ENOENT: none; `wanted` is set all the
 * same. */
int trace_db_find(struct db *db, const struct start_query *q, int64_t now,
		  struct start *ret, struct error *err) MUST_CHECK;

/* A recording and its sender. */
struct trace_recording {
	const char *repo, *image, *workload;
	const char *token, *node; /* identify the voter */
	const void *data;
	size_t len;
	const struct trace_info *info;
	uint64_t memory; /* bytes of the decoded recording */
	uint64_t entries;
};

/* Find out what trace_db_put() would do with the recording now; changes nothing. */
int trace_db_judge(struct db *db, const struct trace_recording *r, int64_t now,
		   enum verdict *ret, struct error *err) MUST_CHECK;

/*
 * Store the recording within the limits of `l`. -EDQUOT: the node has sent too many within the
 * hour. `*ret_evicted`: starts deleted to make room.
 */
int trace_db_put(struct db *db, const struct trace_limits *l,
		 const struct trace_recording *r, int64_t now,
		 enum verdict *ret, unsigned int *ret_evicted,
		 struct error *err) MUST_CHECK;

/* A merged list, as stored in the database. */
struct hot_row {
	int64_t version, made_ms, votes;
	struct buf trace;
};
/* Read the merged list of a start. -ENOENT: there is none. */
int trace_db_hot(struct db *db, int64_t start, struct hot_row *ret,
		 struct error *err) MUST_CHECK;
/* Store a merged list; returns 0 also if the start was deleted in the meantime. */
int trace_db_hot_put(struct db *db, int64_t start, const struct hot_row *row,
		     struct error *err) MUST_CHECK;

/* The votes of a start, smallest first; release with votes_free(). */
int trace_db_votes(struct db *db, int64_t start, struct vote ret[VOTES_MAX],
		   size_t *ret_n, struct error *err) MUST_CHECK;
void votes_free(struct vote *v, size_t n);
/* Read the recording of a vote. -ENOENT: it was deleted. */
int trace_db_vote(struct db *db, int64_t start, const struct vote *v,
		  struct buf *ret, struct error *err) MUST_CHECK;

/* A line of a list of starts. */
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

/* List the newest start of each repository and workload, the newest first; starts of stores are
 * left out. */
#define DONOR_LINES_MAX 16384u
struct donor_line {
	const char *repo;
	struct start start;
};
int trace_db_donors(struct db *db,
		    int (*each)(void *arg, const struct donor_line *l),
		    void *arg, struct error *err) MUST_CHECK;

/* Delete starts; returns how many. `workload` and `repo` may be "": any. */
int trace_db_forget(struct db *db, const char *image, const char *workload,
		    const char *repo, const char *prefix,
		    struct error *err) MUST_CHECK;

struct trace_totals {
	uint64_t starts, votes, bytes;
};
/* Delete starts that are too old, then those beyond the limits. */
int trace_db_sweep(struct db *db, const struct trace_limits *l, int64_t now,
		   struct trace_totals *ret, unsigned int *ret_evicted,
		   struct error *err) MUST_CHECK;

int trace_db_ping(struct db *db, struct error *err) MUST_CHECK;

#endif
