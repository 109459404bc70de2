// SPDX-License-Identifier: Apache-2.0
/*
 * From the events of one start (a job's attempt) to its stages, stragglers and
 * critical path (docs/profiler.md has the definitions).  Pure: one thread at a time.
 *
 * Durations are differences of a node's monotonic clock where both ends have it; the
 * wall clocks serve only to lay the nodes side by side.
 */
#ifndef BOOTSEER_PROFILER_START_REPORT_H
#define BOOTSEER_PROFILER_START_REPORT_H

#include "profiler/stage_event.h"

#define START_EVENTS_MAX 400000u
#define START_NODES_MAX 20000u
#define START_STAGES_MAX 1024u
#define START_GPUS_MAX 64u         /* of a node */
#define START_STAGES_NODE_MAX 128u /* that no node before it had */
/* This mark says that training begins, which ends the start. */
#define START_READY_MARK "train"
/* This mark says that training is over: it tells the share of the job that the start
 * took. */
#define START_OVER_MARK "train.end"

/* How much of a start there was (paper, 3.1). */
enum start_class {
	START_FULL,
	START_HOT_UPDATE, /* the job's nodes and containers stayed */
};
/* "full", "hot_update". */
const char *start_class_name(enum start_class c);
/* Does a node get its job in this stage: queue, schedule, allocate, image, or a part of
 * one of them? */
bool start_stage_is_placing(struct stage_text stage);
/* A start without such a stage of a job that had one in an earlier attempt. */
enum start_class start_class_of(bool is_placed, bool was_placed);

struct start_set;

struct start_event {
	const char *stage, *node;
	enum stage_ev ev;
	int64_t ts_ns, mono_ns; /* STAGE_NONE; one of them is there */
	int64_t rank, status;   /* STAGE_NONE */
	uint64_t boot;
	const uint64_t *facts; /* STAGE_FACTS of them; NULL: none */
};

/* Offsets by a node's exchange with the service: add one to a node's clock to have the
 * service's. */
struct start_clock {
	uint64_t boot; /* that `mono_offset_ns` is of */
	int64_t mono_offset_ns, wall_offset_ns;
	int64_t rtt_ns; /* of the exchange; the shortest one is used */
};

/* Are the offsets within what clocks can be off by (the wall clock by 11 days)? */
bool start_clock_is_sane(const struct start_clock *c);

int start_set_new(struct start_set **ret, struct error *err) MUST_CHECK;
void start_set_free(struct start_set *s);
DEFINE_AUTO(start_set)

/* In any order, and twice if need be.  -EFBIG: past one of the limits;
 * -EINVAL: it has no time, or one that is none. */
int start_set_add(struct start_set *s, const struct start_event *e,
		  struct error *err) MUST_CHECK;
int start_set_clock(struct start_set *s, const char *node,
		    const struct start_clock *c, struct error *err) MUST_CHECK;

/*
 * The events of a set but for those of the nodes `without`, and no clocks: for an analysis
 * of which a few nodes' events are read again.  `s` is only read.  -ENOMEM.
 */
int start_set_copy(const struct start_set *s, const char *const *without,
		   size_t n, struct start_set **ret,
		   struct error *err) MUST_CHECK;

/* Memory that it takes, about. */
size_t start_set_bytes(const struct start_set *s);

/* The report needs them no more; its names stay. */
void start_set_drop_events(struct start_set *s);
/* Drop the facts of a report that has ended, or whose runs are not asked for them again. */
void start_set_drop_facts(struct start_set *s);

struct start_facts {
	uint64_t v[STAGE_FACTS];
};

/* A stage from its begin to its end, on the service's clock. */
struct start_run {
	uint32_t stage, node; /* indices into the report */
	int64_t rank;         /* STAGE_NONE: the node as a whole */
	int64_t begin_ns, end_ns;
	int64_t duration_ns; /* of an open run 0 */
	int64_t status;      /* STAGE_NONE */
	uint32_t facts;      /* of its end, or of its begin; from 1, 0: none */
	uint32_t attempt;    /* 1 is the first in its node and rank */
	bool is_open;        /* no end came; end_ns is begin_ns */
	bool is_late; /* open, and an end came after the start was over */
	bool goes_on; /* open, and nothing says that it is over */
	bool is_top;  /* within no other stage */
	bool is_wait; /* waits for other nodes, does no work */
};

struct start_spread {
	size_t n; /* nodes */
	int64_t min_ns, p25_ns, median_ns, p75_ns, p90_ns, p95_ns, p99_ns,
		max_ns;
	double max_median; /* 0: the median is 0 */
	int64_t bound_ns;  /* what takes longer is a straggler */
};

/* A stage on one node: of its ranks the longest, each with all its attempts. */
struct start_cell {
	uint32_t stage, node;
	int64_t begin_ns, end_ns, duration_ns;
	uint32_t first;                /* of its runs, which by_cell has */
	uint32_t runs, open, attempts; /* attempts: of the rank with most */
	bool is_straggler;
};

struct start_stage {
	const char *name;
	int64_t begin_ns, end_ns; /* first begin, last end of all nodes */
	int64_t job_ns;           /* between the two */
	struct start_spread spread;
	uint32_t runs, open, retries;
	uint32_t lost_begins; /* ends without a begin */
	uint32_t stragglers, failed;
	uint32_t tops; /* of its runs, within no other stage */
	bool is_top; /* most of them; a node may have lost what was around its own */
};

struct start_node {
	const char *name;
	int64_t begin_ns, end_ns;
	int64_t busy_ns; /* in stages, without waiting for others */
	bool is_straggler;
	bool has_mark; /* it said that training begins */
	bool is_waited; /* a wait of the start's first stage that waits is for it */
	int64_t open_ns; /* the first begin of an open stage that it works in; 0 */
	int64_t busy_before_ns; /* of busy_ns, before that */
	int64_t queued_ns;      /* of busy_ns, before the node had its GPUs */
	int64_t held_ns;        /* it has its GPUs since then */
	int64_t last_ns;        /* its last event */
	uint32_t first_run, n_runs; /* which of the report's */
	uint64_t gpus;              /* as its events say; 0: unknown */
};

/* A step of the critical path, first to last. */
struct start_step {
	uint32_t run;
	int64_t gap_ns; /* since the step before ended, and nobody worked */
};

/*
 * Time of nodes, and so of their GPUs, until training began: from each node's first
 * event, or the end of its queueing, to the end of the start.
 */
struct start_lost {
	double node_s; /* the nodes' sum */
	double wait_s; /* of it in no stage of their own: others were slower */
	double gpu_s;  /* node_s, each node by its GPUs; 0: unknown */
	double job_share; /* of the job until its `train.end`; 0: unknown */
};

/* A node, or one of its ranks, that a start which is not over waits for. */
struct start_wait {
	uint32_t node, stage;
	int64_t rank;     /* STAGE_NONE: the node as a whole */
	int64_t since_ns; /* when it began the stage, or ended the one before */
	int64_t last_ns;  /* the last that was heard of it */
	bool is_in;       /* in the stage; or it has not begun it yet */
	/* Others that ended the stage (or began it), of so many that have it. */
	uint32_t done, of;
	/* The last event: an end with this status, a begin, a mark. */
	uint32_t said_stage;
	enum stage_ev said;
	int64_t said_status;
};

/* A stage that ended with a status other than 0. */
struct start_failure {
	uint32_t run;
	bool is_again; /* a later attempt of it on this node and rank went well */
};

/* Names are borrowed from the set. */
struct start_report {
	int64_t begin_ns, end_ns;
	bool is_ready;   /* the mark came; otherwise end_ns is the last event */
	int64_t over_ns; /* of the mark that training is over; 0 */
	struct start_spread spread; /* of busy_ns of the nodes */
	struct start_lost lost;
	const struct start_facts *facts; /* borrowed from the set */
	struct start_run *runs;          /* by node, in it by rank and begin */
	struct start_stage *stages;
	struct start_node *nodes;
	struct start_cell *cells; /* by stage, then node */
	uint32_t
		*by_cell; /* runs as cells have them; in it by rank and begin */
	struct start_step *path;
	struct start_wait *waits; /* whom most others are ahead of first */
	struct start_failure *failures; /* the first one first */
	size_t n_runs, n_stages, n_nodes, n_cells, n_path, n_waits, n_failures;
};

/* The report ends before its set.  -ENOMEM. */
int start_report_make(struct start_set *s, struct start_report *ret,
		      struct error *err) MUST_CHECK;
/* Runs, cells and stages alone: nothing is known of nodes but their names, of what lies
 * within what, of the path, and of lost time. */
int start_report_make_stages(struct start_set *s, struct start_report *ret,
			     struct error *err) MUST_CHECK;
void start_report_fini(struct start_report *r);

/*
 * Sentences without a full stop about a start at `now_ns`: whom it waits for, what failed
 * first, and which failure took longest of those that were mended.  Nothing is appended
 * where there is nothing to say.  -ENOMEM.
 */
int start_wait_text(const struct start_report *r, int64_t now_ns,
		    struct buf *ret) MUST_CHECK;
int start_failure_text(const struct start_report *r,
		       struct buf *ret) MUST_CHECK;
int start_mended_text(const struct start_report *r, struct buf *ret) MUST_CHECK;
/* Is it in the state of the first wait, whom the others wait for? */
bool start_wait_is_first(const struct start_report *r,
			 const struct start_wait *w);
/* "model.load end, status 1": what a node that is waited for said last.  -ENOMEM. */
int start_said_text(const struct start_report *r, const struct start_wait *w,
		    struct buf *ret) MUST_CHECK;

/* Sum up the losses by `end_ns`: of a start that does not train yet, now. */
void start_lost_until(const struct start_report *r, int64_t end_ns,
		      struct start_lost *ret);

/* How long a run is, or has lasted until `now_ns`: 0 where it is open for another reason
 * than that it goes on. */
int64_t start_run_length(const struct start_report *r,
			 const struct start_run *run, int64_t now_ns);
/* The node's own time, open stages until `now_ns`. */
int64_t start_node_busy(const struct start_report *r,
			const struct start_node *n, int64_t now_ns);

#endif
