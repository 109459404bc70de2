// SPDX-License-Identifier: Apache-2.0
/*
 * Analysis of a cluster's metrics: when it saved, loaded and trained, what a save takes,
 * and what failures lost since the last one (docs/analysis.md has the definitions; they
 * follow "From Detection to Recovery", arXiv 2605.09370, 4.2). Pure: one thread at a
 * time. Times are seconds since 1970, lengths are seconds.
 */
#ifndef BOOTSEER_PROFILER_OPS_SAVES_H
#define BOOTSEER_PROFILER_OPS_SAVES_H

#include "profiler/ops/ops.h"

/* -------------------------------------------------------------------- phases --- */

#define OPS_POINTS_MAX 8000000u /* of one series */

/* A value each `step_s`; NAN where none is known. */
struct ops_series {
	int64_t begin_s;
	uint32_t step_s;
	size_t n;
	double *v; /* NULL: the metric is missing */
};

/* The value that divides a series into low and high ones. */
struct ops_level {
	bool is_found;    /* the two groups are apart */
	double threshold; /* of no use otherwise */
	double low, high; /* typical values of the groups */
};

/* Rates lie decades apart; shares (of_rate: false) are compared as they are. */
struct ops_level ops_find_level(const struct ops_series *s, bool of_rate);

enum ops_phase { OPS_UNKNOWN, OPS_TRAIN, OPS_LOAD, OPS_SAVE, OPS_N_PHASES };

/* Samples in a row that are of one phase, or nearly. */
struct ops_burst {
	size_t first, n; /* of the series */
	double begin_s, end_s;
	double middle_s;    /* by bytes */
	double bytes, peak; /* all nodes; the highest rate of a sample */
	/* By ops_sum_flows(), which makes begin_s and end_s exact, too; 0 nodes: not
	 * measured.  `takes_s` is NAN where unknown. */
	size_t nodes;
	double takes_s;
	struct ops_spread node_bytes;
	size_t setting; /* of a save: index, or SIZE_MAX */
};

/* The mean of values, and what it may be off by in 95 of 100 cases. */
struct ops_mean {
	size_t n;
	double mean, error; /* infinite with fewer than two */
};

struct ops_mean ops_mean_of(const double *v, size_t n);

/* Saves in succession that are equally far apart: a job's configuration. */
struct ops_setting {
	double from_s, to_s;
	size_t saves, n;         /* n: intervals between them */
	double interval_s, sd_s; /* median; deviation of those near it */
	double bytes, peak;      /* medians of a save */
	/* By ops_time_settings(): what a save takes, of so many; the medians of the nodes'
	 * least, middle and most bytes. */
	struct ops_mean takes_s;
	double node_low, node_mid, node_high;
};

struct ops_phases {
	struct ops_level write, read, gpu;
	uint8_t *phase; /* enum ops_phase, a sample each */
	size_t n;
	double length_s[OPS_N_PHASES];
	double idle_s; /* of OPS_TRAIN, with GPUs below their threshold */
	struct ops_burst *saves, *loads;
	size_t n_saves, n_loads;
	struct ops_setting *settings;
	size_t n_settings;
};

/* Bytes a second of all nodes above which they save, or load; 0: found from the data. */
struct ops_rates {
	uint64_t save, load;
};

/* Bytes a second of all nodes, and the GPUs' mean utilisation in %; of the last two either
 * may be missing.  All have one begin, step and n.  `given` may be NULL.
 * -EINVAL, -ENOMEM. */
int ops_find_phases(const struct ops_series *write,
		    const struct ops_series *read, const struct ops_series *gpu,
		    const struct ops_rates *given, struct ops_phases *ret,
		    struct error *err) MUST_CHECK;
void ops_phases_fini(struct ops_phases *p);

/* ----------------------------------------------------------------- durations --- */

struct ops_sample {
	double at_s, v;
};

/* A counter's growth over samples in the order of time.  One that falls began again. */
struct ops_growth {
	double bytes;
	/* How long the growth took, which most often is shorter than the distance of two
	 * samples: right in the mean of many (docs/analysis.md), 0 where nothing grew. */
	double length_s;
	/* The middles of the samples in which it began and ended; as right in the mean. */
	double begin_s, end_s;
};

struct ops_growth ops_find_growth(const struct ops_sample *v, size_t n);

/* The last save that ended before `at_s`, or NULL. */
const struct ops_burst *ops_last_save(const struct ops_phases *p, double at_s);

/* A counter of one node over the time of a save. */
struct ops_flow {
	const char *node;
	const char *id; /* of its counters; copies of one have one id */
	size_t samples;
	struct ops_growth growth;
};

/* Fill in what the nodes say of a save: bytes, nodes, takes_s, node_bytes.  `v` is sorted
 * here, and changed.  -ENOMEM. */
int ops_sum_flows(struct ops_flow *v, size_t n, struct ops_burst *b,
		  struct error *err) MUST_CHECK;

/* Once that is done for saves: what one of a setting takes, and how sure that is. */
int ops_time_settings(struct ops_phases *p, struct error *err) MUST_CHECK;

/* ------------------------------------------------------------------ lost time --- */

/* A job that trained and failed, and how long it was since its last save, or, without one,
 * since its begin. */
struct ops_loss {
	size_t session; /* of the set's */
	double lost_s;
	bool has_save;
};

struct ops_losses {
	struct ops_loss *v;
	size_t n, n_unknown; /* n_unknown: the metrics do not cover their end */
	double sum_s, gpu_s;
};

int ops_find_losses(const struct ops_set *s, const struct ops_rule *r,
		    const struct ops_phases *p, const struct ops_series *write,
		    struct ops_losses *ret, struct error *err) MUST_CHECK;
void ops_losses_fini(struct ops_losses *l);

/* ------------------------------------------------------------------- requests --- */

/* Counters of one kind of NFS's requests: their growth over bursts, all nodes together. */
struct ops_rpc {
	double requests, queue_s,
		response_s; /* the last two: sums over requests */
	double bytes;
	double node_s; /* nodes, each as long as its bursts took */
};

/* Where a request's time goes (4.2.5). */
struct ops_request {
	double wait_s;     /* for a slot of the client's transport */
	double serve_s;    /* network and server */
	double wait_share; /* of both */
	double bytes;
	double in_flight; /* requests that a node had sent, in the mean (Little's law) */
};

/* False: there were none. */
bool ops_find_request(const struct ops_rpc *r, struct ops_request *ret);
/* Bytes a second of a node that has so many slots, at best. */
double ops_slots_rate(const struct ops_request *r, double slots);

#endif
