// SPDX-License-Identifier: Apache-2.0
/*
 * Caches bytes of striped files on this node's disk, so that a job restarted on the node reads its
 * checkpoint from there. A cache is a folder with a sparse file for each version of a file; several
 * mounts may share it.
 *
 * The cache is not trusted: each chunk is compared with the checksum in its file's manifest, and a
 * missing or wrong one is read from the store. So no repair is needed after a crash.
 *
 * Functions may be called by any thread unless their comment says otherwise.
 */
#ifndef BOOTSEER_CKPT_FUSE_DISK_CACHE_H
#define BOOTSEER_CKPT_FUSE_DISK_CACHE_H

#include "ckpt-fuse/ckpt.h"

struct disk_cache;
struct disk_cache_file;

/* Use the folder, which is made where it is missing, for `most` bytes of files of the store.
 *   -EPERM  another user owns it, or others may read or write it */
int disk_cache_open(const char *dir, uint64_t most, const char *store_url,
		    struct disk_cache **ret, struct error *err) MUST_CHECK;
void disk_cache_free(struct disk_cache *c); /* no file may be attached */

/* Attach a file, which must stay open until disk_cache_detach(). NULL: its bytes are not cached. */
struct disk_cache_file *disk_cache_attach(struct disk_cache *c,
					  const struct ckpt_file *f);
void disk_cache_detach(struct disk_cache_file *x);

/* Read from the cache; blocks for the disk. False: some of the bytes are missing, and `buf` is
 * undefined. */
bool disk_cache_read(struct disk_cache_file *x, uint64_t off, void *buf,
		     size_t len);
/* Store bytes that were read from elsewhere, if the budget and the disk's speed allow it. An error
 * means that the disk failed; for a minute after it nothing is stored and no call fails. */
int disk_cache_keep(struct disk_cache_file *x, uint64_t off, const void *buf,
		    size_t len, struct error *err) MUST_CHECK;

struct disk_cache_stats {
	uint64_t read_bytes, kept_bytes;
};
void disk_cache_stats(struct disk_cache *c, struct disk_cache_stats *ret);

#endif
