// SPDX-License-Identifier: Apache-2.0
/* Unpacked spans in memory; private to this folder. */
#ifndef BOOTSEER_IMAGE_SPANS_SPAN_CACHE_H
#define BOOTSEER_IMAGE_SPANS_SPAN_CACHE_H

#include "image/spans/spans.h"

/* The bytes of an unpacked span, or of a part of the windows; they do not change. */
struct span_room {
	uint8_t *data;
	size_t len;
};

/* The thread that loads a span which is not there. */
enum span_claim {
	SPAN_READY,   /* `*ret` has it */
	SPAN_CLAIMED, /* the caller: span_cache_put() or _drop() ends that */
	SPAN_AWAITED, /* another one, no less urgent */
};

/* A name of a source's rooms: no other source, of an image that may lie, has it. */
uint64_t span_cache_owner(struct span_cache *c);
/* The source is gone, and its rooms were given back. */
void span_cache_forget(struct span_cache *c, uint64_t owner);

/* Any thread, as all below.  SPAN_READY gives a use of `*ret`. */
enum span_claim span_cache_claim(struct span_cache *c, uint64_t owner,
				 uint64_t key, enum source_priority priority,
				 struct span_room **ret);
/* As span_cache_claim(), but claims nothing: NULL when it is not there. */
struct span_room *span_cache_find(struct span_cache *c, uint64_t owner,
				  uint64_t key);
/* Until the key's state may have changed, or `at_ns`. */
void span_cache_wait(struct span_cache *c, uint64_t owner, uint64_t key,
		     int64_t at_ns);
/* Bytes that were claimed are here; takes `data`.  Returns it, or what another one brought
 * meanwhile, with a use; NULL: memory is short. */
struct span_room *span_cache_put(struct span_cache *c, uint64_t owner,
				 uint64_t key, enum source_priority claimed_by,
				 uint8_t *data, size_t len);
/* Bytes that were put are damaged: nobody finds them any more. */
void span_cache_expel(struct span_cache *c, uint64_t owner, uint64_t key);
void span_cache_drop(struct span_cache *c, uint64_t owner, uint64_t key,
		     enum source_priority claimed_by);
void span_cache_give(struct span_cache *c, struct span_room *r); /* or NULL */
uint64_t span_cache_bytes(struct span_cache *c); /* in memory now */

#endif
