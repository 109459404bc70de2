// SPDX-License-Identifier: Apache-2.0
/* Threads that check whether the disk kept what was written to it; private to cache*.c.  "With
 * space": the caller holds the lock cache.space. */
#ifndef BOOTSEER_BLOCKSTORE_CACHE_WATCH_H
#define BOOTSEER_BLOCKSTORE_CACHE_WATCH_H

#include "blockstore/cache_mount.h"

/* cache_scrub.c */
int scrub_start(struct cache *c, struct error *err) MUST_CHECK;
void scrub_stop(struct cache *c);
/* Report damage, if there is any and it is due; false: not now. With space, which is
 * released and taken again. */
bool scrub_tell(struct cache *c);
/* Time from the start of the process to the first scrub. */
int64_t scrub_first_ns(struct cache *c);

/* cache_notes.c */

/* A pinned block may be damaged: have that reported soon (cache_on_damage()). With space. */
void scrub_tell_soon(struct cache *c);
/* A mount should be gone soon: look more often. */
void watch_soon(struct cache *c);
/* Pages of the segment may not be on the disk yet: check it. With space. */
void watch_segment(struct cache *c, uint32_t segment);
/* A block was written to the file of its segment, from this page on, and the kernel has yet to
 * write it back to the disk: calls watch_segment() for that segment. With space. */
void watch_written(struct cache *c, uint32_t page);
/* Are there frozen segments?  Without a lock or with mounts_lock. */
bool freeze_is_any(struct cache *c);

/* cache_watch.c */
int watch_start(struct cache *c, struct error *err) MUST_CHECK;
void watch_stop(struct cache *c);
/* Check for errors of write-back. With space, which is released and taken again. */
void watch_look(struct cache *c);
/* Writes to the segment were lost, so its blocks become misses. With space, which is
 * released and taken again. */
void watch_distrust(struct cache *c, uint32_t segment);

#endif
