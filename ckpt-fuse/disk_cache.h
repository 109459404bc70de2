// SPDX-License-Identifier: Apache-2.0
/*
 * Bytes of striped files on this node's disk, so that a job that is started again on the node reads
 * its checkpoint there.  A cache is a folder with a sparse file for each version of a file, which
 * several mounts may use side by side.
 *
 * Nothing in it is believed: a chunk is held against the checksum in its file's manifest, and one
 * that is not there, or is wrong, is read from the store.  So a crash needs no repair.
 *
 * Any thread may call any function, unless its comment says otherwise.
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
void disk_cache_free(struct disk_cache *c); /* with no file attached */

/* `f` outlives what is attached to it.  NULL: its bytes are not kept. */
struct disk_cache_file *disk_cache_attach(struct disk_cache *c,
					  const struct ckpt_file *f);
void disk_cache_detach(struct disk_cache_file *x);

/* Blocks for the disk.  False: some of the bytes are not there, and `buf` has anything. */
bool disk_cache_read(struct disk_cache_file *x, uint64_t off, void *buf,
		     size_t len);
/* Keep bytes that were read from elsewhere, where the budget and the disk's speed allow it.  An
 * error says that the disk took none; the next minute none are kept, and none fails. */
int disk_cache_keep(struct disk_cache_file *x, uint64_t off, const void *buf,
		    size_t len, struct error *err) MUST_CHECK;

struct disk_cache_stats {
	uint64_t read_bytes, kept_bytes;
};
void disk_cache_stats(struct disk_cache *c, struct disk_cache_stats *ret);

#endif
