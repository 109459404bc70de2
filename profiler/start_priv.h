// SPDX-License-Identifier: Apache-2.0
/* Internal functions that the files of the analysis share. */
#ifndef BOOTSEER_PROFILER_START_PRIV_H
#define BOOTSEER_PROFILER_START_PRIV_H

#include "common/hash.h"
#include "profiler/start_report.h"

struct start_label {
	UT_hash_handle hh;
	uint32_t i;
	uint32_t n_stages; /* of a node: those that it was the first to have */
	char s[];
};

/* Texts by number, in the order of their coming. */
struct start_labels {
	struct start_label *by_text;
	struct start_label **v;
	size_t cap;
	uint32_t n, max;
};

struct set_event {
	uint32_t stage, node;
	int64_t rank, ts_ns, mono_ns, status;
	int64_t at_ns; /* on the service's clock, by align() */
	uint64_t boot;
	uint32_t facts; /* which of the set's, from 1; 0: none */
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
	struct set_clock *clocks; /* the best of each node and boot */
	size_t n_clocks, cap_clocks;
	struct start_facts *facts;
	size_t n_facts, cap_facts;
};

/* Give each event its time on the service's clock.  -ENOMEM. */
int start_set_align(struct start_set *s) MUST_CHECK;

/* Runs, marks and the ends of the start, from aligned events. */
int start_pair(struct start_set *s, struct start_report *r) MUST_CHECK;

/* Say of each run whether it lies within another. */
int start_nest(struct start_report *r) MUST_CHECK;

int start_find_path(struct start_report *r) MUST_CHECK;

/* Which open runs go on, and what ended with a status. */
int start_find_waits(struct start_report *r) MUST_CHECK;
int start_find_failures(struct start_report *r) MUST_CHECK;

/* The spread of `n` durations, ns, in `v`, which is scratch space afterwards. */
void start_spread_of(int64_t *v, size_t n, struct start_spread *ret);

/* As qsort_r(); what is in order already, as events and runs mostly are, is only looked
 * at once. */
void start_sort(void *v, size_t n, size_t size,
		int (*order)(const void *x, const void *y, void *arg),
		void *arg);

#endif
