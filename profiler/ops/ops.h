// SPDX-License-Identifier: Apache-2.0
/*
 * Analysis of all sessions of a cluster: which were retried, what failures cost, which nodes are
 * left out (docs/analysis.md has the definitions; they follow "From Detection to Recovery", arXiv
 * 2605.09370, 4.2.2 and 4.3). Pure: one thread at a time. Times are seconds since 1970, lengths are
 * seconds.
 */
#ifndef BOOTSEER_PROFILER_OPS_OPS_H
#define BOOTSEER_PROFILER_OPS_OPS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/buf.h"
#include "common/error.h"

#define OPS_TEXT_MAX (256u << 20) /* bytes of sacct's output */
#define OPS_SESSIONS_MAX 1000000u
#define OPS_NODES_MAX 65536u       /* nodes of the cluster */
#define OPS_PLACES_MAX (32u << 20) /* nodes of all sessions together */

/* The columns of sacct that are read, in this order. The name comes last because it may contain any
 * byte. */
#define OPS_SACCT_COLUMNS \
	"JobID,User,State,ExitCode,Start,End,NodeList,AllocTRES,JobName"

/* ------------------------------------------------------------------ sessions --- */

enum ops_end {
	OPS_RUNS,
	OPS_DONE,
	OPS_FAILED,   /* the job or one of its nodes failed */
	OPS_REQUEUED, /* removed from its nodes, and put back into the queue */
	/* stopped by a person, or by the scheduler at the time limit */
	OPS_STOPPED,
};

/* A job from its begin on nodes to its end; a requeued job is several sessions. Texts are borrowed
 * from the set. */
struct ops_session {
	const char *job; /* "12", or "12_3" of an array */
	const char *user, *name, *state, *exit;
	int64_t begin_s, end_s; /* end_s of a running session: now */
	enum ops_end end;
	uint32_t gpus; /* GPUs of all its nodes; 0: unknown */
	/* range of ops_set.places that holds its nodes */
	uint32_t first, n_nodes;
};

enum ops_outage_kind {
	/* a person or a program stopped placing work on the node */
	OPS_CORDONED,
	OPS_AWAY, /* the node was not ready, or down */
};

struct ops_outage {
	const char *node;
	enum ops_outage_kind kind;
	int64_t from_s, to_s;
	/* the node is still out; `to_s` is when the data was read */
	bool lasts;
	const char *why; /* reason; "": unknown */
};

struct ops_set {
	struct buf text;
	struct ops_session *sessions; /* sorted by user, name, begin */
	const char **nodes;           /* names of nodes, by number */
	uint32_t *places;             /* numbers of nodes, session by session */
	size_t n_sessions, n_nodes, n_places;
	size_t n_bad; /* rows that could not be read, and are left out */
	/* Outages of nodes, if known; they own their texts. */
	struct ops_outage *outages;
	size_t n_outages, cap_outages;
};

/*
 * Read the output of `sacct --parsable2 --format=OPS_SACCT_COLUMNS`, with any delimiter. `text` is
 * taken over, also on failure. Release with ops_set_free().
 *   -EINVAL  its first line is not these columns
 *   -EFBIG   past one of the limits above
 *   -ENOMEM
 */
int ops_read_sacct(struct buf *text, int64_t now_s, struct ops_set **ret,
		   struct error *err) MUST_CHECK;
void ops_set_free(struct ops_set *s);

#define OPS_OUTAGES_MAX 1000000u

/* Add an outage; its texts are copied. -EFBIG, -ENOMEM. */
int ops_set_add_outage(struct ops_set *s, const struct ops_outage *o,
		       struct error *err) MUST_CHECK;
#define OPS_DRAIN_COLUMNS "NodeName,TimeStart,TimeEnd,State,Reason"

/* Read outages from the output of `sacctmgr --parsable2 --noheader show event
 * format=OPS_DRAIN_COLUMNS`: nodes that were drained or down. `text` is changed. Other lines are
 * ignored. */
int ops_read_drains(char *text, int64_t now_s, struct ops_set *s,
		    struct error *err) MUST_CHECK;
DEFINE_AUTO(ops_set)

static inline int64_t ops_length(const struct ops_session *s)
{
	return s->end_s - s->begin_s;
}

/* A session with at least so many nodes that ran at least so long is taken to have trained, not
 * only loaded its checkpoint. */
struct ops_rule {
	uint32_t nodes_min;
	int64_t trained_s;
	const char *name; /* name of the sessions; NULL: any */
};

bool ops_has_trained(const struct ops_session *s, const struct ops_rule *r);
bool ops_is_of(const struct ops_session *s, const struct ops_rule *r);

/* ------------------------------------------------------------------- retries --- */

/* A session that ends without success, and the next one of the same name and user, form a chain if
 * the next begins within this time. */
#define OPS_GAP_MAX_S INT64_C(86400)

enum ops_outcome {
	OPS_RECOVERED, /* a retry trained */
	OPS_GIVEN_UP,  /* no retry trained */
	OPS_GOES_ON,   /* no retry has trained yet, but the last one runs */
};

struct ops_chain {
	size_t first, n; /* range of ops_set.sessions */
	/* how many of the n - 1 retries were made by the scheduler, under the same job id */
	size_t automatic;
	enum ops_outcome outcome;
	double wasted_node_s,
		wasted_gpu_s; /* time of attempts that ended without training */
	/* length of the longest run of attempts that did not train and had the same state and exit
	 * code */
	size_t alike;
	size_t alike_last;
	/* time of that run's attempts from the fourth on */
	double alike_node_s, alike_gpu_s;
};

struct ops_spread {
	size_t n;
	double min, p25, median, p75, max;
};

struct ops_chains {
	struct ops_chain *v; /* sorted by wasted time, the largest first */
	size_t n, attempts, recovered;
	struct ops_spread gap_automatic_s, gap_other_s;
	/* Down times: from the end of the last attempt that trained (before any: of the first
	 * attempt) to the begin of the retry that trained. */
	struct ops_spread down_automatic_s, down_other_s;
	double wasted_node_s, wasted_gpu_s;
};

/* Quantiles of `n` values; sorts `v`. */
struct ops_spread ops_spread_of(double *v, size_t n);

int ops_find_chains(const struct ops_set *s, const struct ops_rule *r,
		    struct ops_chains *ret, struct error *err) MUST_CHECK;
void ops_chains_fini(struct ops_chains *c);

/* ---------------------------------------------------------------------- cost --- */

/* Shares of the running time that saves and failures cost, from 0 to 1. */
struct ops_share {
	double interval_s;
	double save,
		/* save: spent in saves; lost: work since the last save, at a failure */
		lost;
};

struct ops_cost {
	size_t sessions, failed;
	/* sessions of the same size that failed before they trained; not counted */
	size_t early;
	double run_s, gpu_s;
	/* Mean time between failures with its 95 % bounds (exact, Poisson); without failures
	 * `mtbf_s` and `high_s` are infinite. */
	double mtbf_s, low_s, high_s;
};

void ops_find_cost(const struct ops_set *s, const struct ops_rule *r,
		   struct ops_cost *ret);

/* Cost of saves that take `save_s` and are made every `interval_s` (Young, 1974). */
struct ops_share ops_share_of(double save_s, double interval_s, double mtbf_s);
/* The interval with the lowest total cost: sqrt(2 save_s mtbf_s). */
double ops_best_interval(double save_s, double mtbf_s);

/* --------------------------------------------------------------------- nodes --- */

/* A node, and the large sessions that ran without it. */
struct ops_exclusion {
	uint32_t node;
	size_t sessions; /* number of sessions that left it out */
	double excluded_s;
	/* part of excluded_s in which another session ran on this node alone */
	double held_s;
	/* Set by ops_add_outages(): parts of excluded_s in which the node was cordoned or drained,
	 * and not ready. */
	double cordoned_s, away_s;
};

struct ops_exclusions {
	struct ops_exclusion *v; /* all nodes, the one left out longest first */
	size_t n, sessions;
	double run_s;
};

int ops_find_exclusions(const struct ops_set *s, const struct ops_rule *r,
			struct ops_exclusions *ret,
			struct error *err) MUST_CHECK;
void ops_exclusions_fini(struct ops_exclusions *e);

/* A time in which consecutive large sessions left a node out. */
struct ops_absence {
	int64_t from_s, to_s;
	size_t sessions;
};

/* Find a node's absences, in the order of time; the caller frees the array. */
int ops_find_absences(const struct ops_set *s, const struct ops_rule *r,
		      uint32_t node, struct ops_absence **ret, size_t *ret_n,
		      struct error *err) MUST_CHECK;

/* Fill in cordoned_s and away_s of each node, from the set's outages. */
int ops_add_outages(const struct ops_set *s, const struct ops_rule *r,
		    struct ops_exclusions *e, struct error *err) MUST_CHECK;

#endif
