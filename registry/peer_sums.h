// SPDX-License-Identifier: Apache-2.0
/* Which nodes gave which others how many bytes, summed up over starts.  Pure. */
#ifndef BOOTSEER_REGISTRY_PEER_SUMS_H
#define BOOTSEER_REGISTRY_PEER_SUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "profiler/stage_event.h"

#define PEER_SUMS_NODES_MAX 20000u  /* more are left out */
#define PEER_SUMS_PAIRS_MAX 200000u /* likewise */
#define PEER_SUMS_BYTES_MAX \
	((uint64_t)INT64_MAX) /* of a sum, which stays there */

/* A node as taker (what it had) and as giver (what others say that it gave). */
struct peer_node {
	char *name;
	uint64_t got, origin, gave;
	uint32_t givers, takers; /* nodes that it had from, that it gave to */
};

struct peer_pair {
	uint32_t giver, taker; /* indices of nodes */
	uint64_t bytes;
};

struct peer_sums;
int peer_sums_new(struct peer_sums **ret, struct error *err) MUST_CHECK;
void peer_sums_free(struct peer_sums *s); /* NULL is allowed */
DEFINE_AUTO(peer_sums)

/* `taker` said that it had so much of all peers and of the origin.  -ENOMEM; what is past
 * the bounds is counted as left out. */
int peer_sums_add(struct peer_sums *s, const char *taker, uint64_t got,
		  uint64_t origin) MUST_CHECK;
/* Add bytes of a pair: so much of all that `taker` had came from `giver`. */
int peer_sums_add_pair(struct peer_sums *s, const char *giver,
		       const char *taker, uint64_t bytes) MUST_CHECK;

/* After the last: who gave most, and which pairs most, is first; borrowed. */
struct peer_sums_result {
	const struct peer_node *nodes; /* pairs name them by index */
	const uint32_t *order;         /* of nodes: who gave most first */
	const struct peer_pair *pairs;
	size_t n_nodes, n_pairs;
	uint64_t got, origin, left_out;
};
int peer_sums_end(struct peer_sums *s, struct peer_sums_result *ret) MUST_CHECK;
/* Which pairs are told, `limit` at most: the largest, but what one node says that it had
 * is a sixteenth of them as long as there is something of others.  Those of one node, unless
 * that is "".  `ret` has a place for each pair, false.  -ENOMEM. */
int peer_sums_choose(const struct peer_sums_result *s, const char *node,
		     size_t limit, bool *ret) MUST_CHECK;

/* How much a giver gave, as a line of a report's text.  -ENOMEM. */
int peer_line_format(const char *giver, int64_t bytes,
		     struct buf *ret) MUST_CHECK;
/* The line at `*text`, which moves behind it.  False at the end, or where there is no such
 * line. */
bool peer_line_parse(const char **text, char giver[STAGE_NODE_MAX + 1],
		     int64_t *ret_bytes);

#endif
