// SPDX-License-Identifier: Apache-2.0
/*
 * History of starts whose events are forgotten: a row for each of their nodes, and sums
 * by day. All of it blocks: threads of the pool only.
 */
#ifndef BOOTSEER_REGISTRY_HISTORY_DB_H
#define BOOTSEER_REGISTRY_HISTORY_DB_H

#include "profiler/start_blame.h"
#include "registry/db.h"
#include "registry/start_cache.h"

#define HISTORY_PAST 20  /* starts of a node that are looked back at */
#define HISTORY_DAYS 400 /* rows of days are kept */
#define HISTORY_DAY_ROWS \
	10000 /* of one day; then those of one node leave first */
#define HISTORY_SCALE_ROWS 500000 /* starts; those of few nodes leave */
#define HISTORY_SCALE_STAGES 64   /* of a start: those that most nodes have */
#define HISTORY_NODE_STARTS 2000  /* of one node; the oldest leave */
#define HISTORY_TRIES 5           /* to sum a start up, until it is set aside */
#define HISTORY_ASIDE_S 86400     /* for so long; then it is tried again */
#define HISTORY_AGAIN_S 60 /* between tries, and as much more after each */
#define HISTORY_QUIET_S 60 /* a start that is ready and silent is over */
#define HISTORY_QUIET_OPEN_S 3600 /* one that never was */

/* Starts that are over and not summed up; the number of ids, or -errno. */
int history_db_due(struct db *db, int64_t now, int64_t *ids, size_t max,
		   struct error *err) MUST_CHECK;

enum history_sum {
	HISTORY_TIMES,
	HISTORY_CKPT, /* loads and saves of checkpoints */
};
/* A start could not be summed up.  1: it is set aside now, so that the others come to their
 * turns, however many are like it; 0: it is tried again. */
int history_db_failed(struct db *db, enum history_sum what, int64_t id,
		      int64_t now, struct error *err) MUST_CHECK;

/* Add a start to its nodes' histories and to its day, once.  Returns 1, or 0 when it
 * was there. */
int history_db_add(struct db *db, const struct start_found *f,
		   struct error *err) MUST_CHECK;

/* How the nodes with stragglers did before this start; `past` by node of the report. */
int history_db_past(struct db *db, int64_t start, const struct start_report *r,
		    struct start_past *past, struct error *err) MUST_CHECK;

/* A start of a node. */
struct history_start {
	int64_t start, at, busy_ms, median_ms; /* at: seconds since 1970 */
	bool is_slow;
	const char *job, *stage, *cause; /* of the worst straggling stage; "" */
};
int history_db_node(struct db *db, const char *node, int64_t limit,
		    int (*each)(void *arg, const struct history_start *s),
		    void *arg, struct error *err) MUST_CHECK;

/* A node that was slow since `since`, the most often slow first. */
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

/* Sums over starts; key: a day since 1970, an image, a label, a class (its number).
 * stage "": the whole. */
struct trend_row {
	int64_t starts, nodes, median_ms, job_ms, worst_ms, slow, node_ms,
		wait_ms;
	int64_t tops; /* of the starts, those in which the stage lay within no other */
	const char *key, *stage;
};
struct trend_query {
	enum trend_by by;
	int64_t since_day, limit;
	const char *image, *label; /* "" any */
	int class;                 /* enum start_class, or TREND_CLASS_ANY */
};
int history_db_trend(struct db *db, const struct trend_query *q,
		     int (*each)(void *arg, const struct trend_row *t),
		     void *arg, struct error *err) MUST_CHECK;

/* A stage ("": the whole) of a start that is over; the newest first. */
struct scale_row;
int history_db_scales(struct db *db, const struct trend_query *q,
		      int (*each)(void *arg, const struct scale_row *r),
		      void *arg, struct error *err) MUST_CHECK;

/* Forget nodes' starts before this time, and old days. */
int history_db_sweep(struct db *db, int64_t before, int64_t now,
		     struct error *err) MUST_CHECK;

#endif
