// SPDX-License-Identifier: Apache-2.0
/*
 * Stage events and the starts that they are of, in the database.  All of it blocks:
 * threads of the pool only.
 */
#ifndef BOOTSEER_REGISTRY_STAGE_DB_H
#define BOOTSEER_REGISTRY_STAGE_DB_H

#include "profiler/start_report.h"
#include "registry/db.h"

#define STAGE_NODE_EVENTS_MAX 10000u /* of one node in one start */
#define STAGE_EVENTS_MAX 100000000 /* of all starts; the oldest start leaves */

/* A batch that one node sends at once. */
struct stage_batch {
	const char *node;
	const char *text; /* lines of docs/formats/stage-events.md */
	size_t len;
	bool has_clock;
	struct start_clock clock;
	int64_t now; /* seconds since 1970 */
	uint64_t stored, doubles;
};

/* Is each line an event of this node with job, id and time?  -EINVAL names the
 * first that is not. */
int stage_batch_check(const struct stage_batch *b,
		      struct error *err) MUST_CHECK;

/* Store a checked batch; what is there already is left as it is, and counted.
 * -EFBIG: too many events of the node or of the start. */
int stage_db_put(struct db *db, struct stage_batch *b,
		 struct error *err) MUST_CHECK;

struct job_start {
	int64_t id, attempt, events;
	int64_t first_ns, last_ns; /* its events, on the service's clock */
	int64_t ready_ns; /* of the mark that training begins; 0: none came yet */
	int64_t received;    /* the last batch, seconds since 1970 */
	int64_t revision;    /* grows with each batch */
	int64_t nodes;       /* that sent events */
	int64_t later;       /* later attempts of the job */
	bool is_placed;      /* start_stage_is_placing() of one of its events */
	bool was_placed;     /* of an earlier one, if this is not */
	const char *summary; /* of one that is over: JSON, or "" */
	const char *job;
	const char *image, *label; /* "" unknown */
};

/* A start that does not train is waited for so long after its last event, or until the job
 * is started again; silent is one of which nothing was heard for so long. */
#define JOB_OPEN_NS (INT64_C(86400) * 1000000000)
#define JOB_SILENT_NS (INT64_C(600) * 1000000000)
bool job_start_is_open(const struct job_start *s, int64_t now_ns);

/* Set `later` and `was_placed` by the other attempts of the start's job. */
int stage_db_others(struct db *db, struct job_start *s,
		    struct error *err) MUST_CHECK;
enum start_class job_start_class(const struct job_start *s);

struct job_open {
	int64_t now_ns; /* the caller's, since 1970 */
	int64_t starts, silent;
	int64_t silent_ns; /* of the one that is silent for the longest */
};
int stage_db_count_open(struct db *db, struct job_open *ret,
			struct error *err) MUST_CHECK;

/* "" is any. */
struct job_filter {
	const char *job, *image, *label;
};

/* Newest first. */
int stage_db_list(struct db *db, const struct job_filter *f, int64_t limit,
		  int (*each)(void *arg, const struct job_start *s), void *arg,
		  struct error *err) MUST_CHECK;

/* Events of a start that are in memory, as of a revision; without them `set` is NULL. */
struct stage_base {
	const struct start_set *set;
	int64_t revision;
};

/*
 * `each` sees the start, and says by 1 that its events are wanted: then `*ret`, which is
 * the caller's, holds them, but for those past the bounds of a set, which are counted.
 * Of a base, which `each` may fill, only nodes that sent something since are read again.
 * -ENOENT.
 */
int stage_db_get(struct db *db, int64_t id,
		 int (*each)(void *arg, const struct job_start *s), void *arg,
		 const struct stage_base *base, struct start_set **ret,
		 int64_t *ret_left_out, struct error *err) MUST_CHECK;

/*
 * As stage_db_get(), of the start's loads and saves of checkpoints alone
 * (profiler/start_ckpt.h): events that `each` wants are all read.
 */
int stage_db_get_ckpt(struct db *db, int64_t id,
		      int (*each)(void *arg, const struct job_start *s),
		      void *arg, struct start_set **ret, int64_t *ret_left_out,
		      struct error *err) MUST_CHECK;

/* Forget starts that heard nothing since `before`, then what is too much; the
 * number of starts. */
int stage_db_sweep(struct db *db, int64_t before, struct error *err) MUST_CHECK;

#endif
