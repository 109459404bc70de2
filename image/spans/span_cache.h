// SPDX-License-Identifier: Apache-2.0
/* A cache of unpacked spans in memory; private to this folder. */
#ifndef BOOTSEER_IMAGE_SPANS_SPAN_CACHE_H
#define BOOTSEER_IMAGE_SPANS_SPAN_CACHE_H

#include "image/spans/spans.h"

/* The bytes of an unpacked span, or of a part of the windows; never changed. */
struct span_room {
	uint8_t *data;
	size_t len;
};

/* Result of a claim: who loads a span that is not in the cache. */
enum span_claim {
	SPAN_READY, /* it is in the cache, in `*ret` */
	/* the caller loads it, and ends the claim by span_cache_put() or _drop() */
	SPAN_CLAIMED,
	SPAN_AWAITED, /* another reader, at least as urgent, is loading it */
};

/* A new number under which a source keeps its rooms. Each source has its own, so that a
 * forged image cannot put bytes where other sources find them. */
uint64_t span_cache_owner(struct span_cache *c);
/* Remove the rooms of a source that is being freed; it must have given all back. */
void span_cache_forget(struct span_cache *c, uint64_t owner);

/* Find a span, or claim its loading. All functions below may be called on any thread.
 * SPAN_READY: `*ret` is held until span_cache_give(). */
enum span_claim span_cache_claim(struct span_cache *c, uint64_t owner,
				 uint64_t key, enum source_priority priority,
				 struct span_room **ret);
/* As span_cache_claim(), but without a claim: NULL when the span is not in the cache. */
struct span_room *span_cache_find(struct span_cache *c, uint64_t owner,
				  uint64_t key);
/* Wait until the state of the span may have changed, or until `at_ns`. */
void span_cache_wait(struct span_cache *c, uint64_t owner, uint64_t key,
		     int64_t at_ns);
/* Store a claimed span's bytes; takes `data`. Returns the room, or the one that another
 * thread stored meanwhile, held for the caller; NULL: no memory. */
struct span_room *span_cache_put(struct span_cache *c, uint64_t owner,
				 uint64_t key, enum source_priority claimed_by,
				 uint8_t *data, size_t len);
/* Remove a span whose bytes are damaged, so that no reader finds it. */
void span_cache_expel(struct span_cache *c, uint64_t owner, uint64_t key);
void span_cache_drop(struct span_cache *c, uint64_t owner, uint64_t key,
		     enum source_priority claimed_by);
/* end the use; NULL is allowed */
void span_cache_give(struct span_cache *c, struct span_room *r);
uint64_t span_cache_bytes(struct span_cache *c); /* in memory now */

#endif
