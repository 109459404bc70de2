// SPDX-License-Identifier: Apache-2.0
/*
 * Mounts that read the cache's files.  What such a mount reads must stay where it
 * is until its superblock is gone: an overlay, another mount namespace or an open
 * file keep that alive long after the mount point.  Each has a name (hex digits) and
 * a metadata image that nobody but the kernel keeps open, so the kernel can be
 * asked whether it is gone.
 */
#ifndef BOOTSEER_BLOCKSTORE_CACHE_MOUNT_H
#define BOOTSEER_BLOCKSTORE_CACHE_MOUNT_H

#include "blockstore/blockstore.h"

/* Where what the mount needs is to lie: the metadata image with the suffix
 * "erofs", and whatever the caller wants with others but "blocks". */
int cache_mount_path(struct cache *c, const char *name, const char *suffix,
		     char **ret, struct error *err) MUST_CHECK;

/*
 * Set `bytes` of quota and disk aside for such a file, for which blocks that nobody
 * pinned go.  -ENOSPC.  Each time that it is 0, cache_mount_laid() follows with the
 * same number, when the file is there or will not be.
 */
int cache_mount_room(struct cache *c, uint64_t bytes,
		     struct error *err) MUST_CHECK;
void cache_mount_laid(struct cache *c, uint64_t bytes);

/* Does the kernel, or anybody, have the metadata image open?  Also when it is
 * not known whether. */
bool cache_mount_is_live(struct cache *c, const char *name);

/* Is it one of those whose damage is told?  And how many are they, also of those whose mount
 * point is gone?  Within a call of cache_on_damage(). */
bool cache_mount_is_told(struct cache *c, const char *name);
size_t cache_mounts_told(struct cache *c);

/*
 * Keep all blocks of `m`, which the caller has pinned and located, from now until
 * cache_mount_drop() and the end of the mount, also over a crash.  Before the
 * mount is made, after its metadata image is written; one call at a time for a
 * name.
 *   -EBUSY    an earlier mount of that name reads nobody knows what
 *   -ENOTSUP  the file system cannot tell when a mount is gone
 */
int cache_mount_keep(struct cache *c, const char *name,
		     const struct blockmap *m, struct error *err) MUST_CHECK;

/* Take over what an earlier process kept; -ENOENT. */
int cache_mount_adopt(struct cache *c, const char *name) MUST_CHECK;

/* There is a mount of which nothing is known: nothing that somebody else has open
 * of the cache's files is freed or written until nobody has. */
void cache_freeze_in_use(struct cache *c);

/* The mount point is gone: what it kept is let go when the mount is. */
void cache_mount_drop(struct cache *c, const char *name);

/* Call `fn` when a block that a mount reads is found damaged on the disk, by whomever, or
 * was not written; and again until it is put, after ten seconds, then after twice as long
 * each time, half an hour at most.  On the scrubber's thread, until this is called with
 * NULL, which waits for a call. */
void cache_on_damage(struct cache *c, void (*fn)(void *arg), void *arg);

/* Delete the files of a mount; -EBUSY while it is there. */
int cache_mount_forget(struct cache *c, const char *name,
		       struct error *err) MUST_CHECK;

#endif
