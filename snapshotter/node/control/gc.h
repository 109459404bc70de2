// SPDX-License-Identifier: Apache-2.0
/* Giving disk space back: images that nobody mounts, blocks that nobody pins. */
#ifndef BOOTSEER_NODE_GC_H
#define BOOTSEER_NODE_GC_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct cache;
struct images;
struct keyed_lock;

/* Space is taken from these; all is borrowed. */
struct gc {
	struct images *images;
	struct cache *cache;
	struct keyed_lock *gate; /* serialises work on one image */
};

struct gc_result {
	uint64_t images;
	uint64_t freed_bytes;
};
int gc_run(const struct gc *g, bool images, bool shrink, uint64_t cache_bytes,
	   struct gc_result *ret, struct error *err) MUST_CHECK;

/* Remove the unused image that was asked for longest ago, not within the last minute; false:
 * there is none.  `*after`, 0 at first, keeps images that cannot be removed now from being
 * tried again. */
bool gc_one(const struct gc *g, int64_t *after) MUST_CHECK;
/* Remove unused images that nobody asked for in the NODE_IMAGE_MAX_AGE_S before `now`, which is
 * in seconds since 1970. */
void gc_old(const struct gc *g, int64_t now);
/* Make sure that the table of images has a place for one more.  -ENOSPC: all images are in use. */
int gc_make_place(const struct gc *g, struct error *err) MUST_CHECK;

#endif
