// SPDX-License-Identifier: Apache-2.0
/*
 * Analysis of a cluster's sessions read together: which were tried again, what failures
 * cost, which nodes are left out (docs/analysis.md has the definitions; they follow "From
 * Detection to Recovery", arXiv 2605.09370, 4.2.2 and 4.3). Pure: one thread at a time.
 * Times are seconds since 1970, lengths are seconds.
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
#define OPS_NODES_MAX 65536u       /* of the cluster */
#define OPS_PLACES_MAX (32u << 20) /* nodes of all sessions together */

/* The columns of sacct that are read, in this order: a name may hold any byte, so that it
 * comes last. */
#define OPS_SACCT_COLUMNS \
	"JobID,User,State,ExitCode,Start,End,NodeList,AllocTRES,JobName"

/* ------------------------------------------------------------------ sessions --- */

enum ops_end {
	OPS_RUNS,
	OPS_DONE,
	OPS_FAILED,   /* by itself, or with a node */
	OPS_REQUEUED, /* taken from its nodes, and put back into the queue */
	OPS_STOPPED,  /* by a person, or by the scheduler: its time was over */
};

/* A job from where it began to run to where it ended; a requeued one is several.  Texts are
 * the set's. */
struct ops_session {
	const char *job; /* "12", or "12_3" of an array */
	const char *user, *name, *state, *exit;
	int64_t begin_s, end_s; /* of one that runs: now */
	enum ops_end end;
	uint32_t gpus;           /* of all its nodes; 0: unknown */
	uint32_t first, n_nodes; /* of the set's places */
};

enum ops_outage_kind {
	OPS_CORDONED, /* by a person or a program: no work is placed there */
	OPS_AWAY,     /* it was not ready, or down */
};

struct ops_outage {
	const char *node;
	enum ops_outage_kind kind;
	int64_t from_s, to_s;
	bool lasts;      /* it is out now; `to_s` is the time of the look */
	const char *why; /* "" where nobody said it */
};

struct ops_set {
	struct buf text;
	struct ops_session *sessions; /* by user, name, begin */
	const char **nodes;           /* by number */
	uint32_t *places;             /* numbers of nodes, session by session */
	size_t n_sessions, n_nodes, n_places;
	size_t n_bad; /* rows that could not be read, and are left out */
	/* Where they are known, with texts of their own. */
	struct ops_outage *outages;
	size_t n_outages, cap_outages;
};

/*
 * Read what `sacct --parsable2 --format=OPS_SACCT_COLUMNS` printed, whatever its delimiter.
 * `text` is taken over, also on failure.  Release by ops_set_free().
 *   -EINVAL  its first line is not these columns
 *   -EFBIG   past one of the limits above
 *   -ENOMEM
 */
int ops_read_sacct(struct buf *text, int64_t now_s, struct ops_set **ret,
		   struct error *err) MUST_CHECK;
void ops_set_free(struct ops_set *s);

#define OPS_OUTAGES_MAX 1000000u

/* Texts are copied.  -EFBIG, -ENOMEM. */
int ops_set_add_outage(struct ops_set *s, const struct ops_outage *o,
		       struct error *err) MUST_CHECK;
#define OPS_DRAIN_COLUMNS "NodeName,TimeStart,TimeEnd,State,Reason"

/* Read nodes that were drained or down, as `sacctmgr --parsable2 --noheader show event
 * format=OPS_DRAIN_COLUMNS` prints them; `text` is changed.  Other lines are passed over. */
int ops_read_drains(char *text, int64_t now_s, struct ops_set *s,
		    struct error *err) MUST_CHECK;
DEFINE_AUTO(ops_set)

static inline int64_t ops_length(const struct ops_session *s)
{
	return s->end_s - s->begin_s;
}

/* A session of so many nodes that ran so long had loaded its checkpoint and trained. */
struct ops_rule {
	uint32_t nodes_min;
	int64_t trained_s;
	const char *name; /* of the sessions; NULL: any */
};

bool ops_has_trained(const struct ops_session *s, const struct ops_rule *r);
bool ops_is_of(const struct ops_session *s, const struct ops_rule *r);

/* ------------------------------------------------------------------- retries --- */

/* A session that ends without success and the next of its name and user make a chain, when
 * the next begins within a day. */
#define OPS_GAP_MAX_S INT64_C(86400)

enum ops_outcome {
	OPS_RECOVERED, /* a retry trained */
	OPS_GIVEN_UP,  /* none did */
	OPS_GOES_ON,   /* none did yet: the last one runs */
};

struct ops_chain {
	size_t first, n; /* of the set's sessions */
	size_t automatic; /* of its n - 1 retries: the scheduler's own, of one job id */
	enum ops_outcome outcome;
	double wasted_node_s,
		wasted_gpu_s; /* of attempts that ended without training */
	size_t alike; /* longest run of attempts with one state and exit code that did not
		       * train; `alike_last` is the last of these */
	size_t alike_last;
	double alike_node_s, alike_gpu_s; /* of that run, from the fourth on */
};

struct ops_spread {
	size_t n;
	double min, p25, median, p75, max;
};

struct ops_chains {
	struct ops_chain *v; /* what wasted most first */
	size_t n, attempts, recovered;
	struct ops_spread gap_automatic_s, gap_other_s;
	/* From the end of the attempt that trained last (at first: of the first one) to the
	 * begin of the retry that trained. */
	struct ops_spread down_automatic_s, down_other_s;
	double wasted_node_s, wasted_gpu_s;
};

/* Order statistics of `n` values, which are sorted here. */
struct ops_spread ops_spread_of(double *v, size_t n);

int ops_find_chains(const struct ops_set *s, const struct ops_rule *r,
		    struct ops_chains *ret, struct error *err) MUST_CHECK;
void ops_chains_fini(struct ops_chains *c);

/* ---------------------------------------------------------------------- cost --- */

/* Shares of time, of 1. */
struct ops_share {
	double interval_s;
	double save,
		lost; /* in saves; in work since the last save, when it failed */
};

struct ops_cost {
	size_t sessions, failed;
	size_t early; /* of the same nodes, failed before they trained: not counted */
	double run_s, gpu_s;
	/* Mean time between failures, with the bounds between which it is in 95 of 100
	 * cases (Poisson, exact); with no failure `mtbf_s` and `high_s` are infinite. */
	double mtbf_s, low_s, high_s;
};

void ops_find_cost(const struct ops_set *s, const struct ops_rule *r,
		   struct ops_cost *ret);

/* Young, 1974: a save of `save_s` each `interval_s`. */
struct ops_share ops_share_of(double save_s, double interval_s, double mtbf_s);
/* The interval with the least of both: sqrt(2 save_s mtbf_s). */
double ops_best_interval(double save_s, double mtbf_s);

/* --------------------------------------------------------------------- nodes --- */

/* A node and the sessions of many nodes that ran without it. */
struct ops_exclusion {
	uint32_t node;
	size_t sessions; /* that it was left out of */
	double excluded_s;
	double held_s; /* of it another session ran on this node alone */
	/* By ops_add_outages(): of it the node was cordoned or drained; was not ready. */
	double cordoned_s, away_s;
};

struct ops_exclusions {
	struct ops_exclusion *v; /* left out longest first; all nodes */
	size_t n, sessions;
	double run_s;
};

int ops_find_exclusions(const struct ops_set *s, const struct ops_rule *r,
			struct ops_exclusions *ret,
			struct error *err) MUST_CHECK;
void ops_exclusions_fini(struct ops_exclusions *e);

/* Times in which a node was left out of one large session after another. */
struct ops_absence {
	int64_t from_s, to_s;
	size_t sessions;
};

/* In the order of time; the array is the caller's. */
int ops_find_absences(const struct ops_set *s, const struct ops_rule *r,
		      uint32_t node, struct ops_absence **ret, size_t *ret_n,
		      struct error *err) MUST_CHECK;

/* Fill in what the set's outages say of the time that each node was left out. */
int ops_add_outages(const struct ops_set *s, const struct ops_rule *r,
		    struct ops_exclusions *e, struct error *err) MUST_CHECK;

#endif
