// SPDX-License-Identifier: Apache-2.0
/*
 * The prefetch of each image of the node: with a device of its own, so that it
 * needs no mount, from the first call for it until the image is removed.  Any
 * thread; not inside the image's gate, but for node_prefetch_drop().
 *
 * What was asked for and is not done yet is in ROOT/images/ID/ (state.json and
 * hot.json): the next bootseerd goes on with it, but not for PREFETCH_ON_UNPACK.
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
	/* Starts under way whose ready file is not there yet. */
	const _Atomic size_t *n_unready;
};
int node_prefetch_open(const struct prefetches_of *of, struct prefetches **ret,
		       struct error *err) MUST_CHECK;
/* Stop all; before the fetcher goes.  NULL is allowed. */
void node_prefetch_close(struct prefetches *all);

/* Set the bits of blocks that a start on the image has read: starts_mark_read(). */
typedef void starts_reads_fn(struct starts *s, const struct image *i,
			     const struct blockmap *map, uint8_t *bits);

/* From here on starts are asked what they have read; with NULL, before starts_close(), none
 * are. */
void node_prefetch_ask_starts(struct prefetches *all, struct starts *s,
			      starts_reads_fn *reads);

/* Go on with what a bootseerd before left unfinished. */
void node_prefetch_resume(struct prefetches *all);

/*
 * Something happened to an image: begin what prefetch_choose() says; returns at once.
 * Takes what `hot` owns, also when this fails; NULL: the hot set that it has had.  A
 * hot set that is under way already goes on; another one takes its place.
 *   -ENOENT  the image was removed; or the hot set alone was ordered, and none is
 *            known
 *   -EINPROGRESS  as mounted_open(): its metadata has to be fetched again
 * `call` ends that; NULL: nobody waits for it, who could leave.
 */
int node_prefetch(struct prefetches *all, struct image *i,
		  enum prefetch_event event, struct hot_list *hot,
		  struct remote_call *call, struct error *err) MUST_CHECK;

/* For trace_lookup_open(): what is found is prefetched, or searched for by `s`, which is
 * borrowed until trace_lookup_close(). */
struct trace_user node_prefetch_trace_user(const struct node_config *cfg,
					   struct closure_searches *s);

/* As prefetch_wait(), for as long as the policy says and never longer than
 * NODE_PREFETCH_WAIT_NS, or until `pace` (may be NULL) stops; 0 at once when the
 * image has no prefetch. */
#define NODE_PREFETCH_WAIT_NS (INT64_C(600) * 1000000000)
int node_prefetch_wait(struct image *i, const struct wait_policy *p,
		       struct pace *pace, struct error *err) MUST_CHECK;

/* Stop until the next node_prefetch(), also over restarts. */
void node_prefetch_stop(struct image *i);

/* Somebody left the image.  When nobody else has it, what was begun for PREFETCH_ON_UNPACK,
 * and what nobody else ordered, is stopped; returns at once. */
void node_prefetch_leave(struct image *i);

/* False when the image has no prefetch: then all is zero. */
bool node_prefetch_stats(struct image *i, struct prefetch_stats *ret);

/* As prefetch_fetched(), of the image's block map; -ENOENT when the image has
 * no prefetch. */
int node_prefetch_fetched(struct image *i, bool hot_only, uint8_t **ret_bits,
			  struct error *err) MUST_CHECK;

/* Wait until it is done, failed, stopped or was never begun, at most so long.
 * -ECANCELED: `pace` (may be NULL) stopped meanwhile. */
int node_prefetch_wait_end(struct image *i, int64_t timeout_ns,
			   struct pace *pace, struct error *err) MUST_CHECK;

/* The sums of all images, those that are gone too; only what was fetched,
 * pauses and failures. */
struct prefetch_sums {
	uint64_t under_way; /* images */
	uint64_t hot_bytes, cold_bytes, hot_blocks, cold_blocks;
	uint64_t pauses, failures;
	uint64_t fetches, fetched_bytes; /* of their devices */
};
void node_prefetch_sums(struct prefetches *all, struct prefetch_sums *ret);

/* Bytes of the image's device, for a reader without a mount, who is served before all
 * prefetching; as device_read_sync(), and node_prefetch().  -EINPROGRESS: `call` is local, and
 * some of it is not on the node. */
int node_prefetch_read(struct prefetches *all, struct image *i, uint64_t off,
		       void *buf, size_t len, struct remote_call *call,
		       struct error *err) MUST_CHECK;

/* Set the bits of blocks of `map` that starts of the image which are under way have read. */
void node_prefetch_mark_read(struct prefetches *all, const struct image *i,
			     const struct blockmap *map, uint8_t *bits);

/* prefetch_ahead() of the image's prefetch, which is made when it has none; as
 * node_prefetch_read(). */
int node_prefetch_ahead(struct prefetches *all, struct image *i,
			const uint32_t *blocks, size_t n_blocks,
			const volatile bool *cancel, struct remote_call *call,
			struct error *err) MUST_CHECK;

/* prefetch_ahead_forget() of the image's prefetch, if it has one. */
void node_prefetch_ahead_forget(struct image *i);

/* The image was removed: stop and forget. */
void node_prefetch_drop(struct image *i);

#endif
