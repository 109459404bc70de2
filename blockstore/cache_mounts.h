// SPDX-License-Identifier: Apache-2.0
/* Mounts that read the cache's files, for its other parts; private to cache*.c. */
#ifndef BOOTSEER_BLOCKSTORE_CACHE_MOUNTS_H
#define BOOTSEER_BLOCKSTORE_CACHE_MOUNTS_H

#include "blockstore/cache_mount.h"

/* cache_mounts.c */

/* While opening, before the index is read: pin what the mounts that the kernel
 * still has read.  A folder without mounts is no error. */
int mounts_load(struct cache *c, bool segment_bytes_known,
		struct error *err) MUST_CHECK;
/* Let go of what is gone; true when some are not wanted and yet there. */
bool mounts_poll(struct cache *c);
/* Is it known of each what it reads?  While opening. */
bool mounts_are_known(const struct cache *c);
bool mounts_are_any(struct cache *c);
void mounts_count(struct cache *c, uint64_t *ret_lingering,
		  uint64_t *ret_unknown);
/* Is a block that it reads damaged, and could be written where it lies? */
bool cache_mount_is_damaged(struct cache *c, const char *name);
/* Is the damage of any to be told now?  It is noted that it is; *ret_next_ns gets when
 * this is to be asked next, 0 when there is no reason to. */
bool mounts_note_damage(struct cache *c, int64_t now_ns, int64_t *ret_next_ns);
void mounts_fini(struct cache *c);
/* While opening: the kernel has a mount of that name, if no list says so, too. */
int mounts_add_unknown(struct cache *c, const char *name,
		       struct error *err) MUST_CHECK;

/* cache_kernel.c; while opening: mounts of the cache that the kernel tells of, by
 * mounts_add_unknown(). */
int kernel_mounts_load(struct cache *c, struct error *err) MUST_CHECK;

#endif
