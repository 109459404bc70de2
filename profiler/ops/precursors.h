// SPDX-License-Identifier: Apache-2.0
/*
 * Whether a node's metrics left those of its peers before it failed, and which nodes are
 * slow all the time (docs/analysis.md has the definitions; they follow "From Detection to
 * Recovery", arXiv 2605.09370, 4.1).  Pure: one thread at a time.
 *
 * Metrics come one after another, each over a few windows of time: those before failures,
 * and others by which is known how far healthy nodes go.  So the memory is that of one
 * metric over the windows, however long the time is that these are chosen from.
 *
 * Times are seconds since 1970, lengths are seconds.
 */
#ifndef BOOTSEER_PROFILER_OPS_PRECURSORS_H
#define BOOTSEER_PROFILER_OPS_PRECURSORS_H

#include "profiler/ops/ops.h"

#define OPS_PEERS_MIN 5u /* nodes; fewer have no usual value */
#define OPS_PEERS_MAX 8192u
#define OPS_FAILURES_MAX 1000u
#define OPS_SIGNALS_MAX 1000u
#define OPS_REST_MAX 24u /* windows without failures */
#define OPS_REST_MIN 8u
#define OPS_AFTER 6u /* samples of a window from its failure on */
/* A node left its peers when so many samples in a row are too far away, on one side. */
#define OPS_STAY 3u
#define OPS_SCORE_MAX 100.0f

/* ------------------------------------------------------------------- windows --- */

struct ops_failure {
	uint32_t node; /* its number, as of the panel's rows */
	double at_s;
	uint32_t xid; /* 0: unknown */
};

struct ops_window {
	int64_t begin_s;
	size_t failure; /* its index; SIZE_MAX: none, a window of the rest */
};

struct ops_kernel_error {
	double at_s;
	uint32_t xid;
	char node[256];
};

/* Is it a line of a kernel's log ("TIME HOST kernel: ...")?  A list of failures may be one. */
bool ops_is_kernel_line(const char *line);
/* 1: it tells of an XID; 0: of something else.  -EINVAL: it has no time of its own, as lines of
 * dmesg. */
int ops_read_kernel_line(const char *line, struct ops_kernel_error *ret,
			 struct error *err) MUST_CHECK;

/* All windows have `n` samples; those of the rest stand first, in the order of time. */
struct ops_windows {
	struct ops_window *v;
	size_t n_all, n_rest;
	size_t n, n_before; /* samples; those of them before a failure */
	uint32_t step_s;
};

/*
 * A window before each failure, of `before_s`, and up to OPS_REST_MAX of the rest, evenly
 * over [from_s, to_s) without the times around failures.  `f` is in the order of time.
 *   -ENODATA  fewer than OPS_REST_MIN are left
 *   -ENOMEM
 */
int ops_choose_windows(int64_t from_s, int64_t to_s, uint32_t step_s,
		       int64_t before_s, const struct ops_failure *f, size_t n,
		       struct ops_windows *ret, struct error *err) MUST_CHECK;
void ops_windows_fini(struct ops_windows *w);

/* -------------------------------------------------------------------- panels --- */

/* A metric of all nodes over the windows: n_all * n values a row, NAN where unknown. */
struct ops_panel {
	const struct ops_windows *windows; /* borrowed */
	float *rows[OPS_PEERS_MAX];        /* by node; NULL: none known */
	size_t n_nodes;                    /* rows behind it are NULL */
	size_t bytes;
};

#define OPS_PANEL_MAX (256u << 20) /* bytes */

/* The values of a node in a window; they are unknown at first.  -E2BIG, -ENOMEM: a
 * server is asked for less after -EFBIG, which does not help here. */
int ops_panel_row(struct ops_panel *p, uint32_t node, size_t window,
		  float **ret, struct error *err) MUST_CHECK;
void ops_panel_fini(struct ops_panel *p);

/* --------------------------------------------------------------------- study --- */

/* A metric that left its peers' at a node that failed. */
struct ops_departure {
	size_t failure, signal;
	double lead_s; /* from its first sample outside to the failure */
	double warning_s; /* from when it had stayed outside; <= 0: only with the failure */
	float score; /* the farthest, and on which side */
};

/* A node that is behind its peers for long. */
struct ops_slow {
	uint32_t node;
	size_t signal, windows;
	double from_s,
		to_s; /* of the first window, and of the last one's end */
	double share; /* by which its value is off its peers', of 1 */
};

struct ops_signal_result {
	size_t nodes; /* compared, at most at one time; 0: the metric is missing */
	bool is_elsewhere; /* only nodes without GPUs, or named otherwise, have it */
	double threshold; /* scores from which on it is outside; infinite: too restless */
	size_t alarms; /* in windows of the rest that set no threshold */
	/* The usual score of each node in the last windows, which is taken from its scores. */
	float *usual;
	size_t n_usual;
};

struct ops_study;

/*
 * `budget` are the false alarms in a day, of all nodes and all `n_signals` metrics
 * together, that thresholds are chosen for.  `w` and `f` are borrowed.
 */
int ops_study_new(const struct ops_windows *w, const struct ops_failure *f,
		  size_t n_failures, size_t n_signals, double budget,
		  struct ops_study **ret, struct error *err) MUST_CHECK;
void ops_study_free(struct ops_study *s);
DEFINE_AUTO(ops_study)

/* From now on nodes are compared where their GPUs work as those of most do. */
int ops_study_set_busy(struct ops_study *s, const struct ops_panel *gpu,
		       struct error *err) MUST_CHECK;

/* Compare a metric, whose panel is changed; `slow`: -1 where a slow node has less of it,
 * 1 where it has more, 0 where it says nothing of that. */
int ops_study_add(struct ops_study *s, size_t signal, int slow,
		  struct ops_panel *p, struct error *err) MUST_CHECK;

struct ops_precursors {
	struct ops_departure *departures; /* by failure, the earliest first */
	size_t n_departures;
	struct ops_slow *slow;
	size_t n_slow;
	struct ops_signal_result *signals;
	size_t n_signals;
	size_t *samples; /* by failure: of its node before it, at most; 0: unknown */
	size_t compared, preceded; /* failures with samples; with a warning */
	/* In the windows of the rest that set no threshold: alarms, a node counting once in
	 * a window, and the bounds of 95 % for their number. */
	double days;
	size_t alarms;
	double alarms_low, alarms_high;
	double by_chance; /* failures that would have had a warning so */
};

/* Was there a warning before this failure? */
bool ops_was_preceded(const struct ops_precursors *p, size_t failure);

/* The findings so far, which stay the study's. */
const struct ops_precursors *ops_study_end(struct ops_study *s);

/*
 * How far nodes are from their peers now: `p` has the last OPS_STAY samples, as its only
 * window, and is changed; `gpu`, NULL where unknown, has those of the GPUs' utilisation.
 * `ret` gets, by p's nodes, what a node stayed beyond on one side, with its sign; 0 where it
 * was on both, NAN where samples are missing.  -ENOMEM.
 */
int ops_score_now(const struct ops_signal_result *r,
		  const struct ops_panel *gpu, struct ops_panel *p, float *ret,
		  struct error *err) MUST_CHECK;

/*
 * Scores of nodes at one time: the distance of each value from the median of all, in
 * deviations, within OPS_SCORE_MAX; NAN where unknown, or where fewer than OPS_PEERS_MIN
 * are known.  `room` is for n values.  Returns the median, or NAN.
 */
float ops_score_nodes(const float *v, size_t n, float *ret, float *room);

#endif
