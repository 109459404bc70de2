// SPDX-License-Identifier: Apache-2.0
/*
 * In which order the tensors of a file of torch.save() are read: a zip archive whose
 * entries NAME/data/0, NAME/data/1, ... are stored in the order of their names, "10"
 * before "2", and loaded in that of their numbers.  What is wrong in such a file costs
 * some guesses: bytes are never taken from here.  Pure; one thread at a time.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_ZIP_ORDER_H
#define BOOTSEER_CKPT_FUSE_MOUNT_ZIP_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

#define ZIP_TAIL_MIN 98u /* bytes that the end of a directory takes */
#define ZIP_DIRECTORY_MAX (4u << 20) /* bytes of one that is looked at */
#define ZIP_ORDER_MAX 65536u         /* tensors, the rest is guessed */
#define ZIP_ORDER_SKIP 64u /* that a reader may pass over, and is in order */

struct zip_order;

struct zip_range {
	uint64_t off, len;
};

/* Where the directory of a file of `size` bytes is, by its last `n` bytes.  -ENOENT: it
 * is no such file. */
int zip_find_directory(const void *tail, size_t n, uint64_t size,
		       struct zip_range *ret) MUST_CHECK;
/* -ENOENT: there are no two tensors in it; -EBADMSG: it is damaged; -ENOMEM. */
int zip_order_new(const void *directory, size_t n, uint64_t size,
		  struct zip_order **ret) MUST_CHECK;
void zip_order_free(struct zip_order *o);

/* Somebody reads [off, off + len).  False: it is no tensor's.  How far ahead it is worth
 * to read follows, at most `least`, or four times what was read in order if that is more,
 * and never more than `most`. */
bool zip_order_note(struct zip_order *o, uint64_t off, uint64_t len,
		    uint64_t least, uint64_t most);
/* The next range of these; false: no more now. */
bool zip_order_next(struct zip_order *o, struct zip_range *ret);
/* Bytes that are read in order before the first of these that is wanted; UINT64_MAX: none
 * is. */
uint64_t zip_order_distance(const struct zip_order *o, uint64_t off,
			    uint64_t len);
/* Note that bytes which zip_order_next() gave were not read, or are gone: they are given
 * again. */
void zip_order_lost(struct zip_order *o, uint64_t off, uint64_t len);

#endif
