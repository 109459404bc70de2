// SPDX-License-Identifier: Apache-2.0
/*
 * The prefetch of each image of the node.  It has a device of its own, so it needs no mount,
 * and exists from the first call for it until the image is removed.  Any thread; not inside the
 * image's gate, but for node_prefetch_drop().
 *
 * What was asked for and is not done yet is in ROOT/images/ID/ (state.json and hot.json): the
 * next bootseerd goes on with it, but not for PREFETCH_ON_UNPACK.
 */
#ifndef BOOTSEER_NODE_PREFETCH_H
#define BOOTSEER_NODE_PREFETCH_H

#include "prefetcher/prefetcher.h"
#include "snapshotter/node/images/images.h"
#include "snapshotter/node/config.h"
#include "snapshotter/node/remote_call.h"
#include "snapshotter/node/starts/mounted.h"
#include "snapshotter/node/starts/prefetch_choice.h"
#include "snapshotter/node/traces/trace_lookup.h"

struct closure_searches;
struct prefetches;
struct starts;

/* The parts of the node that prefetches need; all is borrowed but `opens`. */
struct prefetches_of {
	const struct node_config *cfg;
	unsigned int min_free; /* percent of ROOT's disk */
	struct images *images;
	struct mounted_of opens;
	/* The number of starts under way whose containers are not ready. */
	const _Atomic size_t *n_unready;
};
int node_prefetch_open(const struct prefetches_of *of, struct prefetches **ret,
		       struct error *err) MUST_CHECK;
/* Stop all prefetches; called before the fetcher is freed.  NULL is allowed. */
void node_prefetch_close(struct prefetches *all);

/* Set the bits of blocks that a start on the image has read: starts_mark_read(). */
typedef void starts_reads_fn(struct starts *s, const struct image *i,
			     const struct blockmap *map, uint8_t *bits);

/* Ask `reads` from now on which blocks starts have read.  With NULL, before starts_close(): do
 * not ask any more. */
void node_prefetch_ask_starts(struct prefetches *all, struct starts *s,
			      starts_reads_fn *reads);

/* Resume the prefetches that an earlier bootseerd noted on disk. */
void node_prefetch_resume(struct prefetches *all);

/*
 * An event came for an image: begin the prefetch that prefetch_choose() decides; returns at
 * once.  Takes what `hot` owns, also when this fails; NULL: the image's last hot set.  If the
 * same hot set is under way, it goes on; another one replaces it.
 *     -ENOENT  the image was removed; or only the hot set was ordered, and none is known
 *     -EINPROGRESS  as mounted_open(): the metadata has to be fetched again
 * `call` may end the waiting; NULL: there is no caller that could leave.
 */
int node_prefetch(struct prefetches *all, struct image *i,
		  enum prefetch_event event, struct hot_list *hot,
		  struct remote_call *call, struct error *err) MUST_CHECK;

/* The callback of trace_lookup_open() for a found trace: prefetch it, and search the image by
 * `s`, which is borrowed until trace_lookup_close(). */
struct trace_user node_prefetch_trace_user(const struct node_config *cfg,
					   struct closure_searches *s);

/* Wait as prefetch_wait(), by the policy, for NODE_PREFETCH_WAIT_NS at most, or until `pace`
 * (may be NULL) stops; 0 at once if the image has no prefetch. */
#define NODE_PREFETCH_WAIT_NS (INT64_C(600) * 1000000000)
int node_prefetch_wait(struct image *i, const struct wait_policy *p,
		       struct pace *pace, struct error *err) MUST_CHECK;

/* Stop the image's prefetch until the next node_prefetch(), also over restarts. */
void node_prefetch_stop(struct image *i);

/* A user left the image.  If there is no other, stop a prefetch that was begun for
 * PREFETCH_ON_UNPACK alone; returns at once. */
void node_prefetch_leave(struct image *i);

/* Get the figures; false if the image has no prefetch: all are zero then. */
bool node_prefetch_stats(struct image *i, struct prefetch_stats *ret);

/* Blocks of the image's block map that were fetched, as prefetch_fetched(); -ENOENT if the
 * image has no prefetch. */
int node_prefetch_fetched(struct image *i, bool hot_only, uint8_t **ret_bits,
			  struct error *err) MUST_CHECK;

/* Wait until the prefetch is done, failed, stopped or was never begun, at most `timeout_ns`.
 * -ECANCELED: `pace` (may be NULL) stopped. */
int node_prefetch_wait_end(struct image *i, int64_t timeout_ns,
			   struct pace *pace, struct error *err) MUST_CHECK;

/* Sums over all images, including removed ones, of what prefetches fetched, their pauses and
 * failures. */
struct prefetch_sums {
	uint64_t under_way; /* images whose prefetch is under way */
	uint64_t hot_bytes, cold_bytes, hot_blocks, cold_blocks;
	uint64_t pauses, failures;
	uint64_t fetches, fetched_bytes; /* by their devices, for readers too */
};
void node_prefetch_sums(struct prefetches *all, struct prefetch_sums *ret);

/* Read bytes of the image's device for a reader without a mount; goes before all prefetching.
 * Fails as device_read_sync() and node_prefetch().  -EINPROGRESS: `call` is local, and some
 * bytes are not on the node. */
int node_prefetch_read(struct prefetches *all, struct image *i, uint64_t off,
		       void *buf, size_t len, struct remote_call *call,
		       struct error *err) MUST_CHECK;

/* Set the bits of blocks of `map` that the image's starts under way have read. */
void node_prefetch_mark_read(struct prefetches *all, const struct image *i,
			     const struct blockmap *map, uint8_t *bits);

/* Call prefetch_ahead() for the image's prefetch, which is made if there is none; fails as
 * node_prefetch_read(). */
int node_prefetch_ahead(struct prefetches *all, struct image *i,
			const uint32_t *blocks, size_t n_blocks,
			const volatile bool *cancel, struct remote_call *call,
			struct error *err) MUST_CHECK;

/* Call prefetch_ahead_forget() for the image's prefetch, if there is one. */
void node_prefetch_ahead_forget(struct image *i);

/* Stop and free the prefetch of an image that was removed. */
void node_prefetch_drop(struct image *i);

#endif
