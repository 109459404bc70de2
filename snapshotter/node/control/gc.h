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
	struct keyed_lock *gate; /* of work on one image */
};

struct gc_result {
	uint64_t images;
	uint64_t freed_bytes;
};
int gc_run(const struct gc *g, bool images, bool shrink, uint64_t cache_bytes,
	   struct gc_result *ret, struct error *err) MUST_CHECK;

/* Remove the unused image that was asked for longest ago, not within the last minute;
 * false: there is none.  `*after`, 0 at first, keeps those that cannot go now from
 * being tried again. */
bool gc_one(const struct gc *g, int64_t *after) MUST_CHECK;
/* Remove the unused ones that nobody asked for in the NODE_IMAGE_MAX_AGE_S before `now`,
 * seconds since 1970. */
void gc_old(const struct gc *g, int64_t now);
/* Have a place for one more image.  -ENOSPC: all are in use. */
int gc_make_place(const struct gc *g, struct error *err) MUST_CHECK;

#endif
