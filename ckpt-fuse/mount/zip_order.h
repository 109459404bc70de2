// SPDX-License-Identifier: Apache-2.0
/*
 * Predicts the order in which tensors of a torch.save() file are read. The file is a zip archive
 * whose entries NAME/data/0, NAME/data/1, ... are stored in the order of their names ("10" before
 * "2") and loaded in that of their numbers. A malformed file only causes wrong guesses: its bytes
 * are never taken from here. Pure; one thread at a time.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_ZIP_ORDER_H
#define BOOTSEER_CKPT_FUSE_MOUNT_ZIP_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

#define ZIP_TAIL_MIN 98u             /* bytes of the end of a zip directory */
#define ZIP_DIRECTORY_MAX (4u << 20) /* bytes of a directory that is parsed */
/* tensors; the order of further ones is unknown */
#define ZIP_ORDER_MAX 65536u
/* tensors that a reader may skip and still be in order */
#define ZIP_ORDER_SKIP 64u

struct zip_order;

struct zip_range {
	uint64_t off, len;
};

/* Find the directory of a file of `size` bytes from its last `n` bytes. -ENOENT: no such file. */
int zip_find_directory(const void *tail, size_t n, uint64_t size,
		       struct zip_range *ret) MUST_CHECK;
/* Parse a directory. -ENOENT: it has fewer than two tensors; -EBADMSG: damaged; -ENOMEM. */
int zip_order_new(const void *directory, size_t n, uint64_t size,
		  struct zip_order **ret) MUST_CHECK;
void zip_order_free(struct zip_order *o);

/* Note a read of [off, off + len). False: not a tensor's bytes. Updates how far to read ahead: at
 * most `least`, or if more, four times what was read in order, and never more than `most`. */
bool zip_order_note(struct zip_order *o, uint64_t off, uint64_t len,
		    uint64_t least, uint64_t most);
/* Get the next range to read ahead; false: none now. */
bool zip_order_next(struct zip_order *o, struct zip_range *ret);
/* Bytes to be read before the first needed byte of this range; UINT64_MAX: none is needed. */
uint64_t zip_order_distance(const struct zip_order *o, uint64_t off,
			    uint64_t len);
/* Note that bytes from zip_order_next() were not read or were dropped: they are returned again. */
void zip_order_lost(struct zip_order *o, uint64_t off, uint64_t len);

#endif
