// SPDX-License-Identifier: Apache-2.0
/*
 * History of starts, which outlives their events: a row for each node of a start, and sums by day.
 * All functions block: call them on pool threads only.
 */
#ifndef BOOTSEER_REGISTRY_HISTORY_DB_H
#define BOOTSEER_REGISTRY_HISTORY_DB_H

#include "profiler/start_blame.h"
#include "registry/db.h"
#include "registry/start_cache.h"

#define HISTORY_PAST 20  /* earlier starts of a node that are compared with */
#define HISTORY_DAYS 400 /* days for which rows are kept */
#define HISTORY_DAY_ROWS \
	10000 /* rows of one day; rows of a single node are deleted first */
/* starts in all; those of few nodes are deleted first */
#define HISTORY_SCALE_ROWS 500000
/* stages kept of a start: those of most nodes */
#define HISTORY_SCALE_STAGES 64
/* starts kept of one node; the oldest are deleted */
#define HISTORY_NODE_STARTS 2000
/* tries to sum up a start before it is set aside */
#define HISTORY_TRIES 5
/* how long such a start is set aside before another try */
#define HISTORY_ASIDE_S 86400
/* pause after the first try; grows by as much with each try */
#define HISTORY_AGAIN_S 60
/* a ready start without events for so long is over */
#define HISTORY_QUIET_S 60
/* the same for a start that never became ready */
#define HISTORY_QUIET_OPEN_S 3600

/* Find finished starts that were not summed up yet. Returns the number of ids, or -errno. */
int history_db_due(struct db *db, int64_t now, int64_t *ids, size_t max,
		   struct error *err) MUST_CHECK;

enum history_sum {
	HISTORY_TIMES,
	HISTORY_CKPT, /* loads and saves of checkpoints */
};
/* Note that a start could not be summed up. Returns 1: the start is set aside, so that starts that
 * keep failing do not hold up the others; 0: it is tried again. */
int history_db_failed(struct db *db, enum history_sum what, int64_t id,
		      int64_t now, struct error *err) MUST_CHECK;

/* Add a start, once, to its nodes' histories and to the sums of its day. Returns 1, or 0 if the
 * start had been added before. */
int history_db_add(struct db *db, const struct start_found *f,
		   struct error *err) MUST_CHECK;

/* Look up how the straggling nodes did in earlier starts; `past` is indexed by the report's
 * nodes. */
int history_db_past(struct db *db, int64_t start, const struct start_report *r,
		    struct start_past *past, struct error *err) MUST_CHECK;

/* A start in the history of a node. */
struct history_start {
	int64_t start, at, busy_ms, median_ms; /* at: seconds since 1970 */
	bool is_slow;
	/* stage, cause: of the node's worst straggling stage; "": none */
	const char *job, *stage, *cause;
};
int history_db_node(struct db *db, const char *node, int64_t limit,
		    int (*each)(void *arg, const struct history_start *s),
		    void *arg, struct error *err) MUST_CHECK;

/* A node that was slow since `since`; the node that was slow most often comes first. */
struct slow_node {
	int64_t starts, slow, excess_ms, last; /* last: seconds since 1970 */
	const char *node;
};
int history_db_nodes(struct db *db, int64_t since, int64_t limit,
		     int (*each)(void *arg, const struct slow_node *s),
		     void *arg, struct error *err) MUST_CHECK;

enum trend_by {
	TREND_BY_DAY,
	TREND_BY_IMAGE,
	TREND_BY_LABEL,
	TREND_BY_CLASS,
};

#define TREND_CLASS_ANY (-1)

/* Sums over starts. key: a day (number since 1970), an image, a label or a class (its number).
 * stage "": the whole start. */
struct trend_row {
	int64_t starts, nodes, median_ms, job_ms, worst_ms, slow, node_ms,
		wait_ms;
	/* number of starts in which the stage lay within no other stage */
	int64_t tops;
	const char *key, *stage;
};
struct trend_query {
	enum trend_by by;
	int64_t since_day, limit;
	const char *image, *label; /* "": any */
	int class;                 /* enum start_class, or TREND_CLASS_ANY */
};
int history_db_trend(struct db *db, const struct trend_query *q,
		     int (*each)(void *arg, const struct trend_row *t),
		     void *arg, struct error *err) MUST_CHECK;

/* List stages of finished starts (stage "": the whole start), the newest first. */
struct scale_row;
int history_db_scales(struct db *db, const struct trend_query *q,
		      int (*each)(void *arg, const struct scale_row *r),
		      void *arg, struct error *err) MUST_CHECK;

/* Delete nodes' starts from before this time, and old days. */
int history_db_sweep(struct db *db, int64_t before, int64_t now,
		     struct error *err) MUST_CHECK;

#endif
