// SPDX-License-Identifier: Apache-2.0
/*
 * Finds whether a node's metrics left those of its peers before it failed, and which nodes are slow
 * all the time (docs/analysis.md has the definitions; they follow "From Detection to Recovery",
 * arXiv 2605.09370, 4.1). Pure: one thread at a time.
 *
 * Metrics are added one after another, each over a few windows of time: those before failures, and
 * others ("the rest") that show how far healthy nodes go. Memory is needed for one metric over the
 * windows only, however long the whole time is.
 *
 * Times are seconds since 1970, lengths are seconds.
 */
#ifndef BOOTSEER_PROFILER_OPS_PRECURSORS_H
#define BOOTSEER_PROFILER_OPS_PRECURSORS_H

#include "profiler/ops/ops.h"

#define OPS_PEERS_MIN 5u /* nodes needed for a comparison */
#define OPS_PEERS_MAX 8192u
#define OPS_FAILURES_MAX 1000u
#define OPS_SIGNALS_MAX 1000u
#define OPS_REST_MAX 24u /* most windows without failures */
#define OPS_REST_MIN 8u
#define OPS_AFTER 6u /* samples of a window after its failure */
/* A node has left its peers when so many samples in a row are too far away, on the same side. */
#define OPS_STAY 3u
#define OPS_SCORE_MAX 100.0f

/* ------------------------------------------------------------------- windows --- */

struct ops_failure {
	uint32_t node; /* number of the node, also its row in panels */
	double at_s;
	uint32_t xid; /* 0: unknown */
};

struct ops_window {
	int64_t begin_s;
	/* index of the failure; SIZE_MAX: none, a window of the rest */
	size_t failure;
};

struct ops_kernel_error {
	double at_s;
	uint32_t xid;
	char node[256];
};

/* Is it a line of a kernel log ("TIME HOST kernel: ...")? A list of failures may have that
 * format. */
bool ops_is_kernel_line(const char *line);
/* Read a line of a kernel log. 1: an XID; 0: another message. -EINVAL: the line has no wall-clock
 * time, as in dmesg's format. */
int ops_read_kernel_line(const char *line, struct ops_kernel_error *ret,
			 struct error *err) MUST_CHECK;

/* All windows have `n` samples; the windows of the rest come first, in the order of time. */
struct ops_windows {
	struct ops_window *v;
	size_t n_all, n_rest;
	/* samples of a window; how many of them before a failure */
	size_t n, n_before;
	uint32_t step_s;
};

/*
 * Choose a window of `before_s` before each failure, and up to OPS_REST_MAX of the rest, evenly
 * over [from_s, to_s) but not around failures. `f` is in the order of time.
 *   -ENODATA  fewer than OPS_REST_MIN are left
 *   -ENOMEM
 */
int ops_choose_windows(int64_t from_s, int64_t to_s, uint32_t step_s,
		       int64_t before_s, const struct ops_failure *f, size_t n,
		       struct ops_windows *ret, struct error *err) MUST_CHECK;
void ops_windows_fini(struct ops_windows *w);

/* -------------------------------------------------------------------- panels --- */

/* The values of a metric for all nodes: a row has n_all * n values, NAN: unknown. */
struct ops_panel {
	const struct ops_windows *windows; /* borrowed */
	float *rows[OPS_PEERS_MAX];        /* by node; NULL: all unknown */
	size_t n_nodes;                    /* later rows are NULL */
	size_t bytes;
};

#define OPS_PANEL_MAX (256u << 20) /* bytes */

/* Get the values of a node in a window; they are NAN at first. -E2BIG, -ENOMEM. The error is not
 * -EFBIG, since a caller would then ask the server for less, which does not help here. */
int ops_panel_row(struct ops_panel *p, uint32_t node, size_t window,
		  float **ret, struct error *err) MUST_CHECK;
void ops_panel_fini(struct ops_panel *p);

/* --------------------------------------------------------------------- study --- */

/* A metric of a failed node that left those of its peers. */
struct ops_departure {
	size_t failure, signal;
	double lead_s; /* time from the first sample outside to the failure */
	/* time from when it had stayed outside to the failure; <= 0: it was seen only with the
	 * failure */
	double warning_s;
	float score; /* farthest score; the sign is the side */
};

/* A node that is slower than its peers for a long time. */
struct ops_slow {
	uint32_t node;
	size_t signal, windows;
	double from_s, to_s; /* begin of the first window, end of the last */
	double share; /* relative distance of its value from its peers' */
};

struct ops_signal_result {
	/* most nodes compared at one time; 0: the metric is missing */
	size_t nodes;
	/* only nodes without GPUs, or with other names, have the metric */
	bool is_elsewhere;
	/* scores beyond it are outside; infinite: the metric varies too much */
	double threshold;
	/* alarms in the windows of the rest that test thresholds */
	size_t alarms;
	/* The usual score of each node in the last windows, which is subtracted from its scores. */
	float *usual;
	size_t n_usual;
};

struct ops_study;

/*
 * `budget`: accepted false alarms in a day, for all nodes and all `n_signals` metrics together;
 * thresholds are chosen by it. `w` and `f` are borrowed.
 */
int ops_study_new(const struct ops_windows *w, const struct ops_failure *f,
		  size_t n_failures, size_t n_signals, double budget,
		  struct ops_study **ret, struct error *err) MUST_CHECK;
void ops_study_free(struct ops_study *s);
DEFINE_AUTO(ops_study)

/* From now on, compare a node only in windows where its GPUs are as busy as those of most nodes. */
int ops_study_set_busy(struct ops_study *s, const struct ops_panel *gpu,
		       struct error *err) MUST_CHECK;

/* Analyse a metric; changes its panel. `slow`: -1 if a slow node has lower values, 1 if higher, 0
 * if the metric does not show slowness. */
int ops_study_add(struct ops_study *s, size_t signal, int slow,
		  struct ops_panel *p, struct error *err) MUST_CHECK;

struct ops_precursors {
	/* sorted by failure, the earliest departure first */
	struct ops_departure *departures;
	size_t n_departures;
	struct ops_slow *slow;
	size_t n_slow;
	struct ops_signal_result *signals;
	size_t n_signals;
	/* by failure: most samples of its node before it, of any metric; 0: unknown */
	size_t *samples;
	/* failures with samples; failures with a warning */
	size_t compared, preceded;
	/* In the test windows of the rest: alarms (a node counts once in a window) and the 95 %
	 * bounds for their number. */
	double days;
	size_t alarms;
	double alarms_low, alarms_high;
	/* number of failures expected to have a warning by chance */
	double by_chance;
};

/* Did any metric give a warning before this failure? */
bool ops_was_preceded(const struct ops_precursors *p, size_t failure);

/* The results so far; borrowed from the study. */
const struct ops_precursors *ops_study_end(struct ops_study *s);

/*
 * Compute how far nodes are from their peers now. `p` has the last OPS_STAY samples as its only
 * window, and is changed; `gpu` has those of GPU utilisation, NULL: unknown. `ret` gets for each
 * node the score that it stayed beyond on one side, with its sign; 0: it was on both sides; NAN:
 * samples are missing. -ENOMEM.
 */
int ops_score_now(const struct ops_signal_result *r,
		  const struct ops_panel *gpu, struct ops_panel *p, float *ret,
		  struct error *err) MUST_CHECK;

/*
 * Compute the scores of nodes at one time: the distance of each value from the median, in
 * deviations, at most OPS_SCORE_MAX; NAN: unknown, or fewer than OPS_PEERS_MIN values. `room` is
 * for n values. Returns the median, or NAN.
 */
float ops_score_nodes(const float *v, size_t n, float *ret, float *room);

#endif
