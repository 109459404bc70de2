// SPDX-License-Identifier: Apache-2.0
/*
 * The prefetch of each image of the node: with a device of its own, so that it
 * needs no mount, from the first call for it until the image is removed.  Any
 * thread; not inside the image's gate, but for node_prefetch_drop().
 *
 * What was asked for and is not done yet is in ROOT/images/ID/ (state.json and
 * hot.json): the next bootseerd goes on with it.
 */
#ifndef BOOTSEER_NODE_PREFETCH_H
#define BOOTSEER_NODE_PREFETCH_H

#include "prefetcher/prefetcher.h"
#include "snapshotter/node/node.h"

/* node.prefetcher, from the configuration. */
int node_prefetch_open(struct node *n, struct error *err) MUST_CHECK;
/* Stop all; before the fetcher goes. */
void node_prefetch_close(struct node *n);

/* Go on with what a bootseerd before left unfinished. */
void node_prefetch_resume(struct node *n);

/*
 * Begin: the hot set, then with `rest` all of the image; returns at once.  Takes
 * what `hot` owns, also when this fails; NULL: there is no trace.  A hot set
 * that is under way already goes on; another one takes its place.  `rest` waits
 * until the node's readers are idle.
 *   -ENOENT  the image was removed
 *
 * This does what it is told: --prefetch (node_config.prefetch) is for who
 * calls, as node_prefetch_wanted() says.
 */
int node_prefetch_hot(struct node *n, struct image *i, struct hot_list *hot,
		      bool rest, struct error *err) MUST_CHECK;

/* The same for somebody who asks for the image itself, not for a start: with
 * the hot set that it has had, if any, and without waiting for readers.
 *   -ENOENT  neither a hot set nor `rest`, too */
int node_prefetch_now(struct node *n, struct image *i, bool rest,
		      struct error *err) MUST_CHECK;

/* What --prefetch wants at a start. */
struct prefetch_wanted {
	bool hot, rest;
};
struct prefetch_wanted node_prefetch_wanted(const struct node *n);

/* As prefetch_wait(), for as long as the policy says and never longer than
 * NODE_PREFETCH_WAIT_NS; 0 at once when the image has no prefetch. */
#define NODE_PREFETCH_WAIT_NS (INT64_C(600) * 1000000000)
int node_prefetch_wait(struct node *n, struct image *i,
		       const struct wait_policy *p,
		       struct error *err) MUST_CHECK;

/* Stop until the next node_prefetch_hot(), also over restarts. */
int node_prefetch_stop(struct node *n, struct image *i,
		       struct error *err) MUST_CHECK;

/* False when the image has no prefetch: then all is zero. */
bool node_prefetch_stats(struct node *n, struct image *i,
			 struct prefetch_stats *ret);

/* As prefetch_fetched(), of the image's block map; -ENOENT when the image has
 * no prefetch. */
int node_prefetch_fetched(struct node *n, struct image *i, bool hot_only,
			  uint8_t **ret_bits, struct error *err) MUST_CHECK;

/* Wait until it is done, failed, stopped or was never begun, at most so long. */
void node_prefetch_wait_end(struct node *n, struct image *i,
			    int64_t timeout_ns);

/* For status and control socket; of status.c. */
json_t *node_prefetch_json(struct node *n, struct image *i) MUST_CHECK;

/* The sums of all images, those that are gone too; only what was fetched,
 * pauses and failures. */
struct prefetch_sums {
	uint64_t under_way; /* images */
	uint64_t hot_bytes, cold_bytes, hot_blocks, cold_blocks;
	uint64_t pauses, failures;
	uint64_t fetches, fetched_bytes; /* of their devices */
};
void node_prefetch_sums(struct node *n, struct prefetch_sums *ret);

/* The image was removed: stop and forget. */
void node_prefetch_drop(struct node *n, struct image *i);

#endif
