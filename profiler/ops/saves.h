// SPDX-License-Identifier: Apache-2.0
/*
 * Analysis of a cluster's metrics: when it saved, loaded and trained, how long a save takes, and
 * how much work failures lost since the last save (docs/analysis.md has the definitions; they
 * follow "From Detection to Recovery", arXiv 2605.09370, 4.2). Pure: one thread at a time. Times
 * are seconds since 1970, lengths are seconds.
 */
#ifndef BOOTSEER_PROFILER_OPS_SAVES_H
#define BOOTSEER_PROFILER_OPS_SAVES_H

#include "profiler/ops/ops.h"

/* -------------------------------------------------------------------- phases --- */

#define OPS_POINTS_MAX 8000000u /* points of one series */

/* A value every `step_s`; NAN: unknown. */
struct ops_series {
	int64_t begin_s;
	uint32_t step_s;
	size_t n;
	double *v; /* NULL: the metric is missing */
};

/* A threshold that divides a series into low and high values. */
struct ops_level {
	bool is_found;    /* the two groups are clearly apart */
	double threshold; /* valid only if is_found */
	double low, high; /* typical values of the groups */
};

/* Find the threshold. of_rate true: compare logarithms, since rates differ by decades; false:
 * compare shares as they are. */
struct ops_level ops_find_level(const struct ops_series *s, bool of_rate);

enum ops_phase { OPS_UNKNOWN, OPS_TRAIN, OPS_LOAD, OPS_SAVE, OPS_N_PHASES };

/* Consecutive samples of one phase; short pauses are included. */
struct ops_burst {
	size_t first, n; /* range of samples in the series */
	double begin_s, end_s;
	/* when half of the bytes were transferred, in the mean */
	double middle_s;
	/* of all nodes together; peak: the highest rate of a sample */
	double bytes, peak;
	/* Set by ops_sum_flows(), which also makes begin_s and end_s exact. nodes 0: not measured;
	 * `takes_s` NAN: unknown. */
	size_t nodes;
	double takes_s;
	struct ops_spread node_bytes;
	size_t setting; /* index of a save's setting; SIZE_MAX: none */
};

/* The mean of values, and its 95 % error. */
struct ops_mean {
	size_t n;
	double mean, error; /* error: infinite for fewer than two values */
};

struct ops_mean ops_mean_of(const double *v, size_t n);

/* Consecutive saves with equal intervals: one configuration of a job. */
struct ops_setting {
	double from_s, to_s;
	size_t saves, n; /* n: intervals between them */
	/* median interval; standard deviation of the intervals near it */
	double interval_s, sd_s;
	double bytes, peak; /* medians over the saves */
	/* Set by ops_time_settings(): how long a save takes; medians over the saves of the nodes'
	 * smallest, median and largest bytes. */
	struct ops_mean takes_s;
	double node_low, node_mid, node_high;
};

struct ops_phases {
	struct ops_level write, read, gpu;
	uint8_t *phase; /* enum ops_phase of each sample */
	size_t n;
	double length_s[OPS_N_PHASES];
	/* part of OPS_TRAIN in which GPUs are below their threshold */
	double idle_s;
	struct ops_burst *saves, *loads;
	size_t n_saves, n_loads;
	struct ops_setting *settings;
	size_t n_settings;
};

/* Given thresholds, bytes a second of all nodes, for saves and loads; 0: find it from the data. */
struct ops_rates {
	uint64_t save, load;
};

/* Find the phases from bytes a second of all nodes and the GPUs' mean utilisation in %; `read` or
 * `gpu` may be missing. All series have the same begin, step and n. `given` may be NULL. -EINVAL,
 * -ENOMEM. */
int ops_find_phases(const struct ops_series *write,
		    const struct ops_series *read, const struct ops_series *gpu,
		    const struct ops_rates *given, struct ops_phases *ret,
		    struct error *err) MUST_CHECK;
void ops_phases_fini(struct ops_phases *p);

/* ----------------------------------------------------------------- durations --- */

struct ops_sample {
	double at_s, v;
};

/* A counter's growth over samples in the order of time. A counter that falls was reset. */
struct ops_growth {
	double bytes;
	/* How long the growth took, often less than the distance of two samples; correct in the
	 * mean of many (docs/analysis.md); 0: no growth. */
	double length_s;
	/* Middles of the sample intervals in which the growth began and ended; correct in the mean
	 * too. */
	double begin_s, end_s;
};

struct ops_growth ops_find_growth(const struct ops_sample *v, size_t n);

/* The last save that ended before `at_s`, or NULL. */
const struct ops_burst *ops_last_save(const struct ops_phases *p, double at_s);

/* The growth of one node's counter during a save. */
struct ops_flow {
	const char *node;
	/* identifies the counter; copies of the same counter have the same id */
	const char *id;
	size_t samples;
	struct ops_growth growth;
};

/* Fill in a save's values from the nodes' flows: bytes, nodes, takes_s, node_bytes. `v` is sorted
 * and changed. -ENOMEM. */
int ops_sum_flows(struct ops_flow *v, size_t n, struct ops_burst *b,
		  struct error *err) MUST_CHECK;

/* Compute how long a save of each setting takes, with its error; call after ops_sum_flows() for the
 * saves. */
int ops_time_settings(struct ops_phases *p, struct error *err) MUST_CHECK;

/* ------------------------------------------------------------------ lost time --- */

/* A session that trained and failed, and the time since its last save, or without a save since its
 * begin. */
struct ops_loss {
	size_t session; /* index of the set's session */
	double lost_s;
	bool has_save;
};

struct ops_losses {
	struct ops_loss *v;
	/* n_unknown: failures whose end the metrics do not cover */
	size_t n, n_unknown;
	double sum_s, gpu_s;
};

int ops_find_losses(const struct ops_set *s, const struct ops_rule *r,
		    const struct ops_phases *p, const struct ops_series *write,
		    struct ops_losses *ret, struct error *err) MUST_CHECK;
void ops_losses_fini(struct ops_losses *l);

/* ------------------------------------------------------------------- requests --- */

/* Growth of the counters of one kind of NFS request, over bursts and all nodes. */
struct ops_rpc {
	double requests, queue_s,
		response_s; /* queue_s, response_s: sums over requests */
	double bytes;
	double node_s; /* sum over nodes of the time that their bursts took */
};

/* How a request's time is spent (paper, 4.2.5). */
struct ops_request {
	double wait_s;     /* waiting for a slot of the client's transport */
	double serve_s;    /* in the network and the server */
	double wait_share; /* wait_s as a share of wait_s + serve_s */
	double bytes;
	/* mean number of unanswered requests of a node (Little's law) */
	double in_flight;
};

/* Compute the mean request. False: there were no requests. */
bool ops_find_request(const struct ops_rpc *r, struct ops_request *ret);
/* The highest possible bytes a second of a node with so many slots. */
double ops_slots_rate(const struct ops_request *r, double slots);

#endif
