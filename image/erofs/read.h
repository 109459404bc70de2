// SPDX-License-Identifier: Apache-2.0
/* Functions that the files of the reader share. */
#ifndef BOOTSEER_IMAGE_EROFS_READ_H
#define BOOTSEER_IMAGE_EROFS_READ_H

#include "image/erofs/erofs.h"

/* The content's bytes from `off` (< size) on that lie contiguous in the image. Not for
 * chunk-based inodes. -EINVAL when they lie outside of the image. */
int erofs_content(const struct erofs_image *img, const struct erofs_inode *i,
		  uint64_t off, const uint8_t **ret, uint64_t *ret_len,
		  struct error *err) MUST_CHECK;

/* Get the first index of a chunk-based inode, and the number of indexes, all inside the
 * image. -EINVAL, -ENOTSUP. */
int erofs_chunks(const struct erofs_image *img, const struct erofs_inode *i,
		 const uint8_t **ret, uint64_t *ret_n, unsigned int *ret_bits,
		 struct error *err) MUST_CHECK;

#endif
