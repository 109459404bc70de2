// SPDX-License-Identifier: Apache-2.0
/*
 * Analyses the checkpoint loads and saves of a start: how much, how long, how often, and which node
 * was slow (docs/profiler.md has the definitions). Pure: one thread at a time. It needs a report of
 * these two stages alone, because a report of all stages ends when training begins, and most saves
 * come later.
 */
#ifndef BOOTSEER_PROFILER_START_CKPT_H
#define BOOTSEER_PROFILER_START_CKPT_H

#include "profiler/start_report.h"

/* The names of the load and save stages (docs/profiler.md). */
#define START_CKPT_LOAD "ckpt.load"
#define START_CKPT_SAVE "ckpt.save"
/* A longer pause between runs begins a new round; a mount ends its phases after the same time
 * without a call. */
#define START_CKPT_PAUSE_NS INT64_C(5000000000)

enum start_ckpt_kind {
	START_CKPT_LOADS,
	START_CKPT_SAVES,
	START_CKPT_KINDS,
};

/* Sums over runs, each a phase of one mount; bounded by 2^62. */
struct start_ckpt_sum {
	uint32_t runs;
	uint32_t open; /* number of runs without an end */
	uint64_t bytes;
	uint64_t run_ms;  /* time from begin to end */
	uint64_t wait_ms; /* part of run_ms in which some program waited */
	/* Sums of the waits of requests, which ran in parallel. */
	uint64_t queue_ms, storage_ms, network_ms;
};

/* Sums over all ranks and runs of a node. */
struct start_ckpt_node {
	uint32_t node;       /* index into the report */
	int64_t duration_ns; /* duration of the slowest rank */
	bool is_straggler;
	struct start_ckpt_sum sum;
};

/* A round: runs of all nodes that follow each other without a pause. */
struct start_ckpt_round {
	int64_t begin_ns, end_ns; /* on the service's clock */
	int64_t median_ns, max_ns;
	double max_median; /* 0: the median is 0 */
	uint32_t nodes;
	uint32_t slowest; /* the slowest node: index into the report's nodes */
	struct start_ckpt_sum sum;
};

/* All loads, or all saves. */
struct start_ckpt_part {
	const char *stage; /* START_CKPT_LOAD or START_CKPT_SAVE */
	struct start_ckpt_sum sum;
	/* begin of the first round, end of the last */
	int64_t begin_ns, end_ns;
	int64_t job_ns;             /* sum of the rounds' lengths */
	struct start_spread spread; /* spread of the nodes' durations */
	uint32_t stragglers;
	struct start_ckpt_node *nodes;   /* the slowest first */
	struct start_ckpt_round *rounds; /* in the order of time */
	size_t n_nodes, n_rounds;        /* n_nodes 0: there were no runs */
};

struct start_ckpt {
	struct start_ckpt_part part[START_CKPT_KINDS];
};

/* Analyse a report of a set that has only events of the two stages. The report must stay valid as
 * long as the result. -ENOMEM. */
int start_ckpt_make(const struct start_report *r, struct start_ckpt *ret,
		    struct error *err) MUST_CHECK;
void start_ckpt_fini(struct start_ckpt *c);

/* Bytes a second; 0: the time is 0 or unknown. */
uint64_t start_ckpt_rate(uint64_t bytes, int64_t ns);

#endif
