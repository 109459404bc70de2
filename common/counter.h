// SPDX-License-Identifier: Apache-2.0
/*
 * Figures of a program as one table: the Prometheus text of /metrics and the
 * list in the manual come from it.
 */
#ifndef BOOTSEER_COMMON_COUNTER_H
#define BOOTSEER_COMMON_COUNTER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/buf.h"

enum counter_kind {
	COUNTER_TOTAL,   /* only grows; its name ends in _total */
	COUNTER_GAUGE,   /* current value, may fall */
	COUNTER_SECONDS, /* a struct counter_seconds; ends in _seconds */
	COUNTER_LATENCY, /* a struct counter_latency; ends in _seconds */
	COUNTER_NS,      /* ns that only grow; ends in _seconds_total */
};

/* A histogram of durations: within[i] counts those up to bound i, the last counts all. */
#define COUNTER_BOUNDS 8 /* 1, 2, 5, 10, 30, 60, 120 s, and any */
struct counter_seconds {
	uint64_t within[COUNTER_BOUNDS];
	uint64_t sum_ms;
};
void counter_add_ms(struct counter_seconds *c, uint64_t ms);

/* A histogram for durations of mostly milliseconds that many threads add to: n[i] counts those
 * above bound i - 1 and up to bound i. */
#define COUNTER_LATENCIES 14 /* 1 ms to 30 s, and any */
struct counter_latency {
	atomic_uint_fast64_t n[COUNTER_LATENCIES], sum_ns;
};
void counter_add_latency(struct counter_latency *c, int64_t ns);
void counter_copy_latency(struct counter_latency *to,
			  struct counter_latency *from);

struct counter_spec {
	const char *name; /* name without the prefix: "cache_hits_total" */
	enum counter_kind kind;
	size_t offset;    /* offset of the value in the struct of values */
	const char *help; /* one sentence, with the unit */
};

/*
 * Append the Prometheus text (exposition format 0.0.4) of every figure of the table, which ends
 * with name NULL. `values` is a struct of plain uint64_t (and of the types that kinds name) that
 * the caller filled; `prefix` is "bootseer_node_".  -ENOMEM, -EFBIG.
 */
int counter_format(const struct counter_spec *table, const void *values,
		   const char *prefix, struct buf *ret) MUST_CHECK;

/* Print the table for people: one line for each figure, with its name and sentence. */
void counter_list(const struct counter_spec *table, const char *prefix,
		  FILE *out);

#endif
