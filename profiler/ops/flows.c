// SPDX-License-Identifier: Apache-2.0
/* Sums up the bytes that each node wrote in a save, and the time it took. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/ops/ops_priv.h"

/* Times of nodes that write little mean nothing: these wait for the others. */
#define WRITES_MUCH 0.5 /* share of the nodes' mean bytes */

static int compare_flows_by_node(const void *x, const void *y)
{
	const struct ops_flow *a = x, *b = y;
	int c = strcmp(a->node, b->node);

	if (c == 0)
		c = strcmp(a->id, b->id);
	/* If two servers have the series, put the copy with more samples first. */
	return c ? c : (a->samples < b->samples) - (a->samples > b->samples);
}

static bool is_same_series(const struct ops_flow *a, const struct ops_flow *b)
{
	return strcmp(a->node, b->node) == 0 && strcmp(a->id, b->id) == 0;
}

static size_t drop_copies(struct ops_flow *v, size_t n)
{
	size_t left = 0;

	for (size_t i = 0; i < n; i++)
		if (!left || !is_same_series(&v[left - 1], &v[i]))
			v[left++] = v[i];
	return left;
}

/* Add up the flows of a node's mounts, as one flow with the length of its longest. */
static size_t sum_nodes(struct ops_flow *v, size_t n)
{
	size_t nodes = 0;
	double largest = 0, sum;

	for (size_t i = 0; i < n; i++) {
		const struct ops_growth g = v[i].growth;
		struct ops_flow *to = nodes ? &v[nodes - 1] : NULL;

		if (!to || strcmp(to->node, v[i].node) != 0) {
			v[nodes++] = v[i];
			largest = g.bytes;
			continue;
		}
		sum = to->growth.bytes + g.bytes;
		to->growth.bytes = sum;
		if (g.bytes > largest) {
			largest = g.bytes;
			to->growth = g;
			to->growth.bytes = sum;
		}
	}
	return nodes;
}

/* Set the burst's begin, end and length to the means of the nodes that wrote at least `least`
 * bytes. */
static void time_burst(const struct ops_flow *v, size_t n, double least,
		       double *values, struct ops_burst *b)
{
	double begin = 0, end = 0;
	size_t much = 0;

	for (size_t i = 0; i < n; i++) {
		if (v[i].growth.bytes < least)
			continue;
		begin += v[i].growth.begin_s;
		end += v[i].growth.end_s;
		values[much++] = v[i].growth.length_s;
	}
	b->takes_s = ops_mean_of(values, much).mean;
	b->begin_s = begin / (double)much;
	b->end_s = end / (double)much;
}

int ops_sum_flows(struct ops_flow *v, size_t n, struct ops_burst *b,
		  struct error *err)
{
	AUTO_FREE double *values = calloc(n + 1, sizeof(*values));
	double sum = 0;

	if (!values)
		return error_nomem(err);
	if (n)
		qsort(v, n, sizeof(*v), compare_flows_by_node);
	n = sum_nodes(v, drop_copies(v, n));
	for (size_t i = 0; i < n; i++) {
		sum += v[i].growth.bytes;
		values[i] = v[i].growth.bytes;
	}
	b->nodes = n;
	b->takes_s = (double)NAN;
	if (!n || !(sum > 0))
		return 0;
	b->bytes = sum;
	b->node_bytes = ops_spread_of(values, n);
	time_burst(v, n, WRITES_MUCH * sum / (double)n, values, b);
	return 0;
}
