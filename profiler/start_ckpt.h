// SPDX-License-Identifier: Apache-2.0
/*
 * Loads and saves of checkpoints of a start's nodes: how much, how long and how often,
 * and which node was slow (docs/profiler.md has the definitions). Pure: one thread at a
 * time. The report that it is made from is of these two stages alone: one of all stages
 * ends where training begins, and most saves come later.
 */
#ifndef BOOTSEER_PROFILER_START_CKPT_H
#define BOOTSEER_PROFILER_START_CKPT_H

#include "profiler/start_report.h"

/* The stages of docs/profiler.md that are loads and saves. */
#define START_CKPT_LOAD "ckpt.load"
#define START_CKPT_SAVE "ckpt.save"
/* Runs of nodes that have a longer pause between them are two rounds; a mount ends its
 * phases after the same time without a call. */
#define START_CKPT_PAUSE_NS INT64_C(5000000000)

enum start_ckpt_kind {
	START_CKPT_LOADS,
	START_CKPT_SAVES,
	START_CKPT_KINDS,
};

/* Sums over runs, each of which is a phase of one mount; they end at 2^62. */
struct start_ckpt_sum {
	uint32_t runs;
	uint32_t open; /* of the runs, those without an end */
	uint64_t bytes;
	uint64_t run_ms;  /* from begins to ends */
	uint64_t wait_ms; /* of it some program waited */
	/* Waits of requests, which ran beside one another. */
	uint64_t queue_ms, storage_ms, network_ms;
};

/* A node, with all its ranks and all its runs. */
struct start_ckpt_node {
	uint32_t node;       /* index into the report */
	int64_t duration_ns; /* of the rank that took longest */
	bool is_straggler;
	struct start_ckpt_sum sum;
};

/* A round of nodes together: runs without a pause of all nodes. */
struct start_ckpt_round {
	int64_t begin_ns, end_ns; /* on the service's clock */
	int64_t median_ns, max_ns;
	double max_median; /* 0: the median is 0 */
	uint32_t nodes;
	uint32_t slowest; /* index into the report's nodes */
	struct start_ckpt_sum sum;
};

/* All loads, or all saves. */
struct start_ckpt_part {
	const char *stage; /* START_CKPT_LOAD or START_CKPT_SAVE */
	struct start_ckpt_sum sum;
	int64_t begin_ns, end_ns; /* of the first round, and of the last */
	int64_t job_ns; /* from begin to end of each round, their sum */
	struct start_spread spread; /* of the nodes' durations */
	uint32_t stragglers;
	struct start_ckpt_node *nodes;   /* the slowest first */
	struct start_ckpt_round *rounds; /* first to last */
	size_t n_nodes, n_rounds;        /* 0: there was no run */
};

struct start_ckpt {
	struct start_ckpt_part part[START_CKPT_KINDS];
};

/* Make the analysis of a report whose set had events of the two stages alone. The report
 * ends after it. -ENOMEM. */
int start_ckpt_make(const struct start_report *r, struct start_ckpt *ret,
		    struct error *err) MUST_CHECK;
void start_ckpt_fini(struct start_ckpt *c);

/* Bytes a second; 0 when it took no time that is known. */
uint64_t start_ckpt_rate(uint64_t bytes, int64_t ns);

#endif
