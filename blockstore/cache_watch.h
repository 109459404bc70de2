// SPDX-License-Identifier: Apache-2.0
/* Threads that look whether the disk has what it was given, for the cache's other
 * parts; private to cache*.c. */
#ifndef BOOTSEER_BLOCKSTORE_CACHE_WATCH_H
#define BOOTSEER_BLOCKSTORE_CACHE_WATCH_H

#include "blockstore/cache_mount.h"

/* cache_scrub.c */
int scrub_start(struct cache *c, struct error *err) MUST_CHECK;
void scrub_stop(struct cache *c);
/* With space, which is released and taken again: tell of damage, if there is any and it
 * is time.  False: it is not. */
bool scrub_tell(struct cache *c);
/* From the start to the first scrub. */
int64_t scrub_first_ns(struct cache *c);

/* cache_notes.c */

/* With space: a pinned block may be damaged: cache_on_damage(). */
void scrub_tell_soon(struct cache *c);
/* A mount is to go soon. */
void watch_soon(struct cache *c);
/* With space: pages of it may not be on the disk yet. */
void watch_segment(struct cache *c, uint32_t segment);
/* With space: something was written there. */
void watch_written(struct cache *c, uint32_t page);
/* Are there frozen segments?  Without a lock or with mounts_lock. */
bool freeze_is_any(struct cache *c);

/* cache_watch.c */
int watch_start(struct cache *c, struct error *err) MUST_CHECK;
void watch_stop(struct cache *c);
/* With space, which is released and taken again: ask for errors of write-back. */
void watch_look(struct cache *c);
/* With space, which is released and taken again: a segment was not written to
 * the disk, so its blocks are misses from now on. */
void watch_distrust(struct cache *c, uint32_t segment);

#endif
