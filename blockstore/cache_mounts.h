// SPDX-License-Identifier: Apache-2.0
/* The cache's mounts, as the cache's other files use them; private to cache*.c. */
#ifndef BOOTSEER_BLOCKSTORE_CACHE_MOUNTS_H
#define BOOTSEER_BLOCKSTORE_CACHE_MOUNTS_H

#include "blockstore/cache_mount.h"

/* cache_mounts.c */

/* While opening, before the index is read: pin the blocks that existing mounts read. A
 * folder without mounts is no error. */
int mounts_load(struct cache *c, bool segment_bytes_known,
		struct error *err) MUST_CHECK;
/* Release the blocks of mounts that are gone; true when dropped mounts still exist. */
bool mounts_poll(struct cache *c);
/* Are the blocks of each mount known? While opening. */
bool mounts_are_known(const struct cache *c);
bool mounts_are_any(struct cache *c);
void mounts_count(struct cache *c, uint64_t *ret_lingering,
		  uint64_t *ret_unknown);
/* Does the mount read a damaged block that could be written again at its place? */
bool cache_mount_is_damaged(struct cache *c, const char *name);
/* Must damage of a mount be reported now? If so, the report counts as made. *ret_next_ns
 * gets when to call this again, 0: no need to. */
bool mounts_note_damage(struct cache *c, int64_t now_ns, int64_t *ret_next_ns);
void mounts_fini(struct cache *c);
/* While opening: note that the kernel has a mount of that name, unless its list was loaded. */
int mounts_add_unknown(struct cache *c, const char *name,
		       struct error *err) MUST_CHECK;

/* cache_kernel.c; while opening: pass the cache's mounts that the kernel lists to
 * mounts_add_unknown(). */
int kernel_mounts_load(struct cache *c, struct error *err) MUST_CHECK;

#endif
