// SPDX-License-Identifier: Apache-2.0
/*
 * Why a straggler was slow: what its stage counted (enum stage_fact) beside what the
 * other nodes' did, its attempts, the stages within it, and how the node did in earlier
 * starts.  Pure.
 */
#ifndef BOOTSEER_PROFILER_START_BLAME_H
#define BOOTSEER_PROFILER_START_BLAME_H

#include "profiler/start_report.h"

enum start_cause {
	START_CAUSE_UNKNOWN,
	START_CAUSE_AGAIN,     /* attempts of the stage that came to nothing */
	START_CAUSE_RETRIES,   /* requests that were made again */
	START_CAUSE_THROTTLED, /* a limit, or an origin that said "later" */
	START_CAUSE_DISK,      /* the node's own disk */
	START_CAUSE_COLD,      /* it had less in its cache, and fetched more */
	START_CAUSE_MISSES,    /* the prefetch came too late */
	START_CAUSE_PEERS,     /* bytes came slowly, most of them from peers */
	START_CAUSE_ORIGIN, /* bytes came slowly, most of them from the origin */
	START_CAUSE_NODE,   /* nothing of these, and it was slow before */
	START_CAUSES,
};

/* How the node did in earlier starts. */
struct start_past {
	uint32_t starts, slow;
};

struct start_blame {
	uint32_t cell; /* the straggler: index into the report */
	enum start_cause cause;
	uint32_t
		within; /* the stage that the cause was found in; often its own */
	int64_t excess_ns;    /* longer than the median */
	int64_t explained_ns; /* of it, by the cause */
	uint64_t own, median; /* what was counted; the nodes' median */
	struct start_past past;
};

/* "cold_cache"; for JSON. */
const char *start_cause_name(enum start_cause c);

/*
 * A cause for each straggling cell of the report, in its order.  `past`: by node of the
 * report, or NULL.  `*ret` is the caller's, to free().  -ENOMEM.
 */
int start_blame_find(const struct start_report *r,
		     const struct start_past *past, struct start_blame **ret,
		     size_t *ret_n, struct error *err) MUST_CHECK;

/* A sentence without a full stop: "waited 40.0 s for its disk, the median node 0.1 s". */
int start_blame_text(const struct start_report *r, const struct start_blame *b,
		     struct buf *ret) MUST_CHECK;

#endif
