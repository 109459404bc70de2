// SPDX-License-Identifier: Apache-2.0
/* Blocks of Prometheus's TSDB, in the formats of its documentation: index v2, chunks of XOR
 * encoding.  A benchmark's: whatever fails ends the program. */
#ifndef BOOTSEER_BENCH_TOOLS_OPS_TSDB_H
#define BOOTSEER_BENCH_TOOLS_OPS_TSDB_H

#include <stddef.h>
#include <stdint.h>

#define TSDB_PAIRS_MAX 12

struct tsdb_pair {
	char *name, *value;
};

struct tsdb_series {
	struct tsdb_pair labels[TSDB_PAIRS_MAX]; /* by name */
	size_t n_labels;
	/* Samples of the series in the block: */
	const int64_t *at_ms;
	size_t n;
	uint32_t ref;
};

/* Sample `i` of a series in the block; asked for in the order of time. */
typedef double tsdb_value_fn(struct tsdb_series *s, size_t i);

/* `v` is in the order of the labels.  Blocks have numbers from 1 on. */
void tsdb_write_block(const char *folder, unsigned int number, int64_t begin_s,
		      int64_t end_s, struct tsdb_series *const *v, size_t n,
		      tsdb_value_fn *value);

void tsdb_end_with(const char *what) __attribute__((noreturn));
void *tsdb_get_memory(size_t n, size_t size);

#endif
