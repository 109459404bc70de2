// SPDX-License-Identifier: Apache-2.0
/*
 * Mounts that read the cache's files directly. The blocks that such a mount reads must stay
 * where they are until its superblock is gone: an overlay, another mount namespace or an open
 * file can keep that alive long after the mount point. Each mount has a name (hex digits) and a
 * metadata image that only the kernel keeps open, so the kernel can tell whether the mount is
 * gone.
 */
#ifndef BOOTSEER_BLOCKSTORE_CACHE_MOUNT_H
#define BOOTSEER_BLOCKSTORE_CACHE_MOUNT_H

#include "blockstore/blockstore.h"

/* Path for a file that the mount needs: its metadata image with the suffix "erofs", files of
 * the caller with other suffixes, except "blocks". */
int cache_mount_path(struct cache *c, const char *name, const char *suffix,
		     char **ret, struct error *err) MUST_CHECK;

/*
 * Reserve `bytes` of quota and disk for such a file, and evict unpinned blocks for it. -ENOSPC.
 * After each success call cache_mount_laid() with the same number, when the file exists or will
 * never exist.
 */
int cache_mount_room(struct cache *c, uint64_t bytes,
		     struct error *err) MUST_CHECK;
void cache_mount_laid(struct cache *c, uint64_t bytes);

/* Does the kernel or anybody else have the metadata image open? Also true when that cannot
 * be told. */
bool cache_mount_is_live(struct cache *c, const char *name);

/* Within a call of cache_on_damage(): is the mount one of those whose damage is reported?
 * And how many are reported, including mounts whose mount point is gone? */
bool cache_mount_is_told(struct cache *c, const char *name);
size_t cache_mounts_told(struct cache *c);

/*
 * Keep all blocks of `m`, which the caller has pinned and located, from now until
 * cache_mount_drop() and the end of the mount, also over a crash. Call it after the metadata
 * image is written and before mounting; one call at a time for a name.
 *
 *   -EBUSY    an earlier mount of that name reads blocks that are not known
 *
 *   -ENOTSUP  the file system cannot tell when a mount is gone
 */
int cache_mount_keep(struct cache *c, const char *name,
		     const struct blockmap *m, struct error *err) MUST_CHECK;

/* Take over the blocks that an earlier process kept for the mount; -ENOENT. */
int cache_mount_adopt(struct cache *c, const char *name) MUST_CHECK;

/* There is a mount of which nothing is known: freeze all files of the cache that others have
 * open, until nobody has them open. */
void cache_freeze_in_use(struct cache *c);

/* The mount point is gone: release the mount's blocks once the kernel has no such mount any
 * more. */
void cache_mount_drop(struct cache *c, const char *name);

/* Call `fn` when a block that a mount reads is found damaged on the disk, or could not be
 * written. Called again until the block is put: after ten seconds, then after twice as long
 * each time, half an hour at most. Runs on the scrubber's thread. A call with NULL ends this,
 * and waits for a running call. */
void cache_on_damage(struct cache *c, void (*fn)(void *arg), void *arg);

/* Delete the files of a mount; -EBUSY while the mount exists. */
int cache_mount_forget(struct cache *c, const char *name,
		       struct error *err) MUST_CHECK;

#endif
