// SPDX-License-Identifier: Apache-2.0
/* Writes blocks of Prometheus's TSDB in its documented formats: index v2, chunks with XOR
 * encoding. For a benchmark: any failure ends the program. */
#ifndef BOOTSEER_BENCH_TOOLS_OPS_TSDB_H
#define BOOTSEER_BENCH_TOOLS_OPS_TSDB_H

#include <stddef.h>
#include <stdint.h>

#define TSDB_PAIRS_MAX 12

struct tsdb_pair {
	char *name, *value;
};

struct tsdb_series {
	struct tsdb_pair labels[TSDB_PAIRS_MAX]; /* sorted by name */
	size_t n_labels;
	/* Samples of the series in the block: */
	const int64_t *at_ms;
	size_t n;
	uint32_t ref;
};

/* The value of sample `i` of a series in the block; called in order of time. */
typedef double tsdb_value_fn(struct tsdb_series *s, size_t i);

/* Write a block; `v` is sorted by labels. Block numbers begin with 1. */
void tsdb_write_block(const char *folder, unsigned int number, int64_t begin_s,
		      int64_t end_s, struct tsdb_series *const *v, size_t n,
		      tsdb_value_fn *value);

void tsdb_end_with(const char *what) __attribute__((noreturn));
void *tsdb_get_memory(size_t n, size_t size);

#endif
