// SPDX-License-Identifier: Apache-2.0
/*
 * Turns the events of one start (a job's attempt) into stages, stragglers and the critical path
 * (docs/profiler.md has the definitions). Pure: one thread at a time.
 *
 * Durations are differences of a node's monotonic clock if both ends have it; wall clocks serve
 * only to align nodes with each other.
 */
#ifndef BOOTSEER_PROFILER_START_REPORT_H
#define BOOTSEER_PROFILER_START_REPORT_H

#include "profiler/stage_event.h"

#define START_EVENTS_MAX 400000u
#define START_NODES_MAX 20000u
#define START_STAGES_MAX 1024u
#define START_GPUS_MAX 64u /* GPUs of one node */
/* stages that a single node may be the first to name */
#define START_STAGES_NODE_MAX 128u
/* The mark that training begins, which ends the start. */
#define START_READY_MARK "train"
/* The mark that training has ended; with it, the share of the job that the start took is known. */
#define START_OVER_MARK "train.end"

/* Kinds of starts (paper, 3.1). */
enum start_class {
	START_FULL,
	START_HOT_UPDATE, /* the job kept its nodes and containers */
};
/* The class as text: "full", "hot_update". */
const char *start_class_name(enum start_class c);
/* Is it a stage in which a job is placed on a node: queue, schedule, allocate, image, or a part of
 * one? */
bool start_stage_is_placing(struct stage_text stage);
/* START_HOT_UPDATE: the start has no placing stage, but an earlier attempt of the job had one. */
enum start_class start_class_of(bool is_placed, bool was_placed);

struct start_set;

struct start_event {
	const char *stage, *node;
	enum stage_ev ev;
	/* STAGE_NONE: not given; at least one is given */
	int64_t ts_ns, mono_ns;
	int64_t rank, status; /* STAGE_NONE */
	uint64_t boot;
	const uint64_t *facts; /* array of STAGE_FACTS; NULL: none */
};

/* Clock offsets from an exchange of a node with the service: added to the node's clock they give
 * the service's time. */
struct start_clock {
	uint64_t boot; /* boot that `mono_offset_ns` is valid for */
	int64_t mono_offset_ns, wall_offset_ns;
	/* round trip of the exchange; the shortest exchange is used */
	int64_t rtt_ns;
};

/* Are the offsets plausible (the wall clock is off by at most 11 days)? */
bool start_clock_is_sane(const struct start_clock *c);

int start_set_new(struct start_set **ret, struct error *err) MUST_CHECK;
void start_set_free(struct start_set *s);
DEFINE_AUTO(start_set)

/* Add an event, in any order; duplicates are allowed. -EFBIG: past one of the limits; -EINVAL: it
 * has no time, or an impossible one. */
int start_set_add(struct start_set *s, const struct start_event *e,
		  struct error *err) MUST_CHECK;
int start_set_clock(struct start_set *s, const char *node,
		    const struct start_clock *c, struct error *err) MUST_CHECK;

/*
 * Copy the events of a set, without those of the nodes `without` and without clocks, for an
 * analysis that reads only a few nodes' events again. `s` is only read. -ENOMEM.
 */
int start_set_copy(const struct start_set *s, const char *const *without,
		   size_t n, struct start_set **ret,
		   struct error *err) MUST_CHECK;

/* About how many bytes of memory the set takes. */
size_t start_set_bytes(const struct start_set *s);

/* Free the events, after the report was made; the names stay. */
void start_set_drop_events(struct start_set *s);
/* Free the facts, after the report was freed or if its facts are not read any more. */
void start_set_drop_facts(struct start_set *s);

struct start_facts {
	uint64_t v[STAGE_FACTS];
};

/* A run of a stage from its begin to its end, on the service's clock. */
struct start_run {
	uint32_t stage, node; /* indices into the report */
	int64_t rank;         /* STAGE_NONE: of the node as a whole */
	int64_t begin_ns, end_ns;
	int64_t duration_ns; /* 0 for an open run */
	int64_t status;      /* STAGE_NONE */
	/* index of the facts of its end, or else of its begin, plus 1; 0: none */
	uint32_t facts;
	uint32_t attempt; /* 1 is the first in its node and rank */
	bool is_open;     /* no end was found; end_ns equals begin_ns */
	bool is_late;     /* open, but an end came after the start's end */
	bool goes_on;     /* open, and no other event shows that it has ended */
	bool is_top;      /* lies within no other stage */
	bool is_wait;     /* a wait for other nodes, without work */
};

struct start_spread {
	size_t n; /* nodes */
	int64_t min_ns, p25_ns, median_ns, p75_ns, p90_ns, p95_ns, p99_ns,
		max_ns;
	double max_median; /* 0: the median is 0 */
	int64_t bound_ns;  /* a longer duration is a straggler's */
};

/* A stage on one node. Duration and attempts are those of its longest rank. */
struct start_cell {
	uint32_t stage, node;
	int64_t begin_ns, end_ns, duration_ns;
	uint32_t first; /* index of its first run in by_cell */
	/* attempts: of the rank with most attempts */
	uint32_t runs, open, attempts;
	bool is_straggler;
};

struct start_stage {
	const char *name;
	int64_t begin_ns, end_ns; /* first begin and last end over all nodes */
	int64_t job_ns;           /* end_ns - begin_ns */
	struct start_spread spread;
	uint32_t runs, open, retries;
	uint32_t lost_begins; /* ends without a begin */
	uint32_t stragglers, failed;
	uint32_t tops; /* number of runs that lie within no other stage */
	/* most runs lie within no other stage; single nodes may have lost events of the outer
	 * stage */
	bool is_top;
};

struct start_node {
	const char *name;
	int64_t begin_ns, end_ns;
	int64_t busy_ns; /* time in stages, without waits for others */
	bool is_straggler;
	bool has_mark; /* the node sent the mark that training begins */
	/* others wait for the node in the stage of the start's first wait */
	bool is_waited;
	/* first begin of an open stage that it works in; 0: none */
	int64_t open_ns;
	int64_t busy_before_ns; /* part of busy_ns before open_ns */
	/* part of busy_ns before the node had its GPUs */
	int64_t queued_ns;
	int64_t held_ns;            /* when the node got its GPUs */
	int64_t last_ns;            /* time of its last event */
	uint32_t first_run, n_runs; /* range of the report's runs */
	/* number of GPUs by its events; 0: unknown */
	uint64_t gpus;
};

/* A step of the critical path, in the order of time. */
struct start_step {
	uint32_t run;
	int64_t gap_ns; /* idle time since the end of the step before */
};

/*
 * Time that nodes, and so their GPUs, spent before training began: from each node's first event, or
 * the end of its queueing, to the end of the start.
 */
struct start_lost {
	double node_s; /* sum over nodes */
	/* part of node_s in which nodes were in no stage, because others were slower */
	double wait_s;
	double gpu_s; /* node time multiplied by the node's GPUs; 0: unknown */
	/* share of the job's time until its `train.end` mark; 0: unknown */
	double job_share;
};

/* A node, or one of its ranks, that an unfinished start waits for. */
struct start_wait {
	uint32_t node, stage;
	int64_t rank; /* STAGE_NONE: of the node as a whole */
	/* when it began the stage, or ended the stage before */
	int64_t since_ns;
	int64_t last_ns; /* time of its last event */
	/* true: it is in the stage; false: it has not begun the stage */
	bool is_in;
	/* done: how many have ended the stage (is_in false: begun it); of: how many there are. */
	uint32_t done, of;
	/* Its last event: an end with this status, a begin, or a mark. */
	uint32_t said_stage;
	enum stage_ev said;
	int64_t said_status;
};

/* A stage that ended with a status other than 0. */
struct start_failure {
	uint32_t run;
	bool is_again; /* a later attempt on this node and rank succeeded */
};

/* The result of the analysis. Names are borrowed from the set. */
struct start_report {
	int64_t begin_ns, end_ns;
	/* the mark that training begins came; otherwise end_ns is the time of the last event */
	bool is_ready;
	int64_t over_ns; /* time of the mark that training has ended; 0: none */
	struct start_spread spread; /* spread of the nodes' busy_ns */
	struct start_lost lost;
	const struct start_facts *facts; /* borrowed from the set */
	struct start_run *runs;          /* sorted by node, rank and begin */
	struct start_stage *stages;
	struct start_node *nodes;
	struct start_cell *cells; /* by stage, then node */
	/* indices of runs, grouped by cell; within a cell by rank and begin */
	uint32_t *by_cell;
	struct start_step *path;
	/* sorted: first those that most other nodes are ahead of */
	struct start_wait *waits;
	struct start_failure *failures; /* in the order of time */
	size_t n_runs, n_stages, n_nodes, n_cells, n_path, n_waits, n_failures;
};

/* Make the report of a set, which must outlive it. -ENOMEM. */
int start_report_make(struct start_set *s, struct start_report *ret,
		      struct error *err) MUST_CHECK;
/* Make only runs, cells and stages. Of nodes only names are known; nesting, the path and lost time
 * are not computed. */
int start_report_make_stages(struct start_set *s, struct start_report *ret,
			     struct error *err) MUST_CHECK;
void start_report_fini(struct start_report *r);

/*
 * Append a sentence without a full stop: which nodes a start waits for at `now_ns`; what failed
 * first; which repaired failure took longest. Appends nothing if there is nothing to say. -ENOMEM.
 */
int start_wait_text(const struct start_report *r, int64_t now_ns,
		    struct buf *ret) MUST_CHECK;
int start_failure_text(const struct start_report *r,
		       struct buf *ret) MUST_CHECK;
int start_mended_text(const struct start_report *r, struct buf *ret) MUST_CHECK;
/* Is it the same kind of wait as the first one, which all others wait for? */
bool start_wait_is_first(const struct start_report *r,
			 const struct start_wait *w);
/* Append the last event of a node that is waited for, such as "model.load end, status 1".
 * -ENOMEM. */
int start_said_text(const struct start_report *r, const struct start_wait *w,
		    struct buf *ret) MUST_CHECK;

/* Sum up the lost time until `end_ns`: now, for a start that does not train yet. */
void start_lost_until(const struct start_report *r, int64_t end_ns,
		      struct start_lost *ret);

/* The length of a run; for a run that goes on, its length until `now_ns`; for other open runs 0. */
int64_t start_run_length(const struct start_report *r,
			 const struct start_run *run, int64_t now_ns);
/* The node's busy time, counting open stages until `now_ns`. */
int64_t start_node_busy(const struct start_report *r,
			const struct start_node *n, int64_t now_ns);

#endif
