// SPDX-License-Identifier: Apache-2.0
/*
 * Finds why a straggler was slow, from the facts of its stage (enum stage_fact) compared with those
 * of other nodes, its attempts, the stages within it, and the node's earlier starts. Pure.
 */
#ifndef BOOTSEER_PROFILER_START_BLAME_H
#define BOOTSEER_PROFILER_START_BLAME_H

#include "profiler/start_report.h"

enum start_cause {
	START_CAUSE_UNKNOWN,
	START_CAUSE_AGAIN,     /* failed attempts of the stage */
	START_CAUSE_RETRIES,   /* repeated requests */
	START_CAUSE_THROTTLED, /* a limit, or an origin that asked to wait */
	START_CAUSE_DISK,      /* the node's own disk */
	/* the node had less in its cache, and fetched more */
	START_CAUSE_COLD,
	START_CAUSE_MISSES, /* the prefetch came too late */
	START_CAUSE_PEERS,  /* bytes came slowly, most of them from peers */
	START_CAUSE_ORIGIN, /* bytes came slowly, most of them from the origin */
	/* none of these, and the node was slow in earlier starts */
	START_CAUSE_NODE,
	START_CAUSES,
};

/* A node's earlier starts: how many, and in how many it was slow. */
struct start_past {
	uint32_t starts, slow;
};

struct start_blame {
	uint32_t cell; /* the straggling cell: index into the report */
	enum start_cause cause;
	/* the stage in which the cause was found; often the cell's own */
	uint32_t within;
	int64_t excess_ns;    /* time beyond the median */
	int64_t explained_ns; /* part of excess_ns that the cause explains */
	uint64_t own, median; /* value of the straggler; median of the nodes */
	struct start_past past;
};

/* The cause's name in JSON, such as "cold_cache". */
const char *start_cause_name(enum start_cause c);

/*
 * Find a cause for each straggling cell of the report, in the report's order. `past`: by node of
 * the report, or NULL. The caller frees `*ret`. -ENOMEM.
 */
int start_blame_find(const struct start_report *r,
		     const struct start_past *past, struct start_blame **ret,
		     size_t *ret_n, struct error *err) MUST_CHECK;

/* Append a sentence without a full stop: "waited 40.0 s for its disk, the median node 0.1 s". */
int start_blame_text(const struct start_report *r, const struct start_blame *b,
		     struct buf *ret) MUST_CHECK;

#endif
