// SPDX-License-Identifier: Apache-2.0
/* Sums over starts of the bytes that each node gave to each other node. Pure. */
#ifndef BOOTSEER_REGISTRY_PEER_SUMS_H
#define BOOTSEER_REGISTRY_PEER_SUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "profiler/stage_event.h"

#define PEER_SUMS_NODES_MAX 20000u  /* further nodes are left out */
#define PEER_SUMS_PAIRS_MAX 200000u /* further pairs are left out */
#define PEER_SUMS_BYTES_MAX \
	((uint64_t)INT64_MAX) /* the largest sum; it does not grow further */

/* A node as taker (`got` and `origin`, by its own report) and as giver (`gave`, as its takers
 * report). */
struct peer_node {
	char *name;
	uint64_t got, origin, gave;
	/* number of nodes that gave to this one, and that took from it */
	uint32_t givers, takers;
};

struct peer_pair {
	uint32_t giver, taker; /* indices of nodes */
	uint64_t bytes;
};

struct peer_sums;
int peer_sums_new(struct peer_sums **ret, struct error *err) MUST_CHECK;
void peer_sums_free(struct peer_sums *s); /* NULL is allowed */
DEFINE_AUTO(peer_sums)

/* Add a report of `taker`: bytes got from all peers, and from the origin. -ENOMEM. Nodes beyond the
 * limit are counted as left out. */
int peer_sums_add(struct peer_sums *s, const char *taker, uint64_t got,
		  uint64_t origin) MUST_CHECK;
/* Add the bytes that `taker` got from `giver`. */
int peer_sums_add_pair(struct peer_sums *s, const char *giver,
		       const char *taker, uint64_t bytes) MUST_CHECK;

/* The result, after the last addition; borrowed. Pairs are sorted by bytes, the largest first. */
struct peer_sums_result {
	const struct peer_node *nodes; /* pairs name them by index */
	/* indices of nodes: the node that gave most first */
	const uint32_t *order;
	const struct peer_pair *pairs;
	size_t n_nodes, n_pairs;
	uint64_t got, origin, left_out;
};
int peer_sums_end(struct peer_sums *s, struct peer_sums_result *ret) MUST_CHECK;
/* Choose the pairs to show: the `limit` largest, but pairs of one taker fill a sixteenth of the
 * places while other takers have pairs left. `node` not "": only pairs of that node. `ret` has one
 * bool for each pair, all false at first. -ENOMEM. */
int peer_sums_choose(const struct peer_sums_result *s, const char *node,
		     size_t limit, bool *ret) MUST_CHECK;

/* Append a line of a report's text: the giver and its bytes. -ENOMEM. */
int peer_line_format(const char *giver, int64_t bytes,
		     struct buf *ret) MUST_CHECK;
/* Read the line at `*text`, and move `*text` behind it. False at the end, or if the line is
 * malformed. */
bool peer_line_parse(const char **text, char giver[STAGE_NODE_MAX + 1],
		     int64_t *ret_bytes);

#endif
