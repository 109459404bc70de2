// SPDX-License-Identifier: Apache-2.0
/*
 * Stage events and the starts they belong to, in the database. All functions block: call them on
 * pool threads only.
 */
#ifndef BOOTSEER_REGISTRY_STAGE_DB_H
#define BOOTSEER_REGISTRY_STAGE_DB_H

#include "profiler/start_report.h"
#include "registry/db.h"

#define STAGE_NODE_EVENTS_MAX 10000u /* events of one node in one start */
/* events of all starts; beyond that the oldest starts are deleted */
#define STAGE_EVENTS_MAX 100000000

/* A batch of events that one node sends in one request. */
struct stage_batch {
	const char *node;
	const char *text; /* lines of docs/formats/stage-events.md */
	size_t len;
	bool has_clock;
	struct start_clock clock;
	int64_t now; /* seconds since 1970 */
	uint64_t stored, doubles;
};

/* Check that each line is an event of this node with job, id and time. -EINVAL: the message names
 * the first line that is not. */
int stage_batch_check(const struct stage_batch *b,
		      struct error *err) MUST_CHECK;

/* Store a checked batch. Events that are stored already are skipped and counted in `doubles`.
 * -EFBIG: too many events of the node or of the start. */
int stage_db_put(struct db *db, struct stage_batch *b,
		 struct error *err) MUST_CHECK;

struct job_start {
	int64_t id, attempt, events;
	/* first and last event, on the service's clock */
	int64_t first_ns, last_ns;
	/* when the mark that training begins came; 0: none yet */
	int64_t ready_ns;
	int64_t received; /* when the last batch came, seconds since 1970 */
	int64_t revision; /* grows with each batch */
	int64_t nodes;    /* number of nodes that sent events */
	int64_t later;    /* later attempts of the job */
	/* one of its events has start_stage_is_placing() */
	bool is_placed;
	bool was_placed;     /* not placed itself, but an earlier attempt was */
	const char *summary; /* JSON summary of a finished start; "": none */
	const char *job;
	const char *image, *label; /* "": unknown */
};

/* A start that does not train counts as open for so long after its last event, unless the job was
 * started again. An open start is silent after so long without events. */
#define JOB_OPEN_NS (INT64_C(86400) * 1000000000)
#define JOB_SILENT_NS (INT64_C(600) * 1000000000)
bool job_start_is_open(const struct job_start *s, int64_t now_ns);

/* Set `later` and `was_placed` by the other attempts of the start's job. */
int stage_db_others(struct db *db, struct job_start *s,
		    struct error *err) MUST_CHECK;
enum start_class job_start_class(const struct job_start *s);

struct job_open {
	int64_t now_ns; /* current time, since 1970; set by the caller */
	int64_t starts, silent;
	int64_t silent_ns; /* how long the most silent start has been silent */
};
int stage_db_count_open(struct db *db, struct job_open *ret,
			struct error *err) MUST_CHECK;

/* Which starts are listed; "": any. */
struct job_filter {
	const char *job, *image, *label;
};

/* Call `each` with the matching starts, the newest first. */
int stage_db_list(struct db *db, const struct job_filter *f, int64_t limit,
		  int (*each)(void *arg, const struct job_start *s), void *arg,
		  struct error *err) MUST_CHECK;

/* Events of a start that the caller has in memory, as of a revision; `set` NULL: none. */
struct stage_base {
	const struct start_set *set;
	int64_t revision;
};

/*
 * Read a start. `each` gets its head, and returns 1 if the caller wants the events. Then `*ret`,
 * which the caller frees, holds them; events beyond the limits of a set are only counted. If `each`
 * fills the base, only nodes with events since its revision are read. -ENOENT: no such start.
 */
int stage_db_get(struct db *db, int64_t id,
		 int (*each)(void *arg, const struct job_start *s), void *arg,
		 const struct stage_base *base, struct start_set **ret,
		 int64_t *ret_left_out, struct error *err) MUST_CHECK;

/*
 * As stage_db_get(), but reads only the start's checkpoint loads and saves (profiler/start_ckpt.h),
 * and always all of them.
 */
int stage_db_get_ckpt(struct db *db, int64_t id,
		      int (*each)(void *arg, const struct job_start *s),
		      void *arg, struct start_set **ret, int64_t *ret_left_out,
		      struct error *err) MUST_CHECK;

/* Delete starts without events since `before`, then the oldest beyond the limit. Returns the number
 * of starts. */
int stage_db_sweep(struct db *db, int64_t before, struct error *err) MUST_CHECK;

#endif
