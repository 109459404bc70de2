// SPDX-License-Identifier: Apache-2.0
/* Internal declarations shared by the files of the analysis. */
#ifndef BOOTSEER_PROFILER_START_PRIV_H
#define BOOTSEER_PROFILER_START_PRIV_H

#include "common/hash.h"
#include "profiler/start_report.h"

struct start_label {
	UT_hash_handle hh;
	uint32_t i;
	uint32_t n_stages; /* of a node: number of stages that it named first */
	char s[];
};

/* Texts, numbered in the order in which they were added. */
struct start_labels {
	struct start_label *by_text;
	struct start_label **v;
	size_t cap;
	uint32_t n, max;
};

struct set_event {
	uint32_t stage, node;
	int64_t rank, ts_ns, mono_ns, status;
	/* time on the service's clock, set by start_set_align() */
	int64_t at_ns;
	uint64_t boot;
	uint32_t facts; /* index of its facts in the set, plus 1; 0: none */
	enum stage_ev ev;
};

struct set_clock {
	uint32_t node;
	struct start_clock c;
};

struct start_set {
	struct start_labels stages, nodes;
	struct set_event *events;
	size_t n_events, cap_events;
	/* clock exchanges; the best of each node and boot */
	struct set_clock *clocks;
	size_t n_clocks, cap_clocks;
	struct start_facts *facts;
	size_t n_facts, cap_facts;
};

/* Set each event's time on the service's clock. -ENOMEM. */
int start_set_align(struct start_set *s) MUST_CHECK;

/* Make runs and marks, and find the begin and end of the start, from aligned events. */
int start_pair(struct start_set *s, struct start_report *r) MUST_CHECK;

/* Set for each run whether it lies within another. */
int start_nest(struct start_report *r) MUST_CHECK;

int start_find_path(struct start_report *r) MUST_CHECK;

/* Find which open runs still go on and which nodes are waited for; and the runs that failed. */
int start_find_waits(struct start_report *r) MUST_CHECK;
int start_find_failures(struct start_report *r) MUST_CHECK;

/* Compute the spread of the `n` durations (ns) in `v`; changes `v`. */
void start_spread_of(int64_t *v, size_t n, struct start_spread *ret);

/* Like qsort_r(), but input that is sorted already, as events and runs mostly are, costs only one
 * pass. */
void start_sort(void *v, size_t n, size_t size,
		int (*order)(const void *x, const void *y, void *arg),
		void *arg);

#endif
