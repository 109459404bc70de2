// SPDX-License-Identifier: Apache-2.0
/* How the extents of a regular file become chunks. */
#ifndef BOOTSEER_IMAGE_EROFS_CHUNKS_H
#define BOOTSEER_IMAGE_EROFS_CHUNKS_H

#include "image/erofs/erofs.h"

struct chunks {
	bool is_one_run; /* no hole, and contiguous in one device */
	uint8_t chunkbits;
	uint64_t n_chunks; /* of 1 << chunkbits bytes */
	uint64_t n_holes;  /* chunks that are holes */
};

/* -EINVAL: extents that overlap, are not aligned, or leave file or device. */
int chunks_choose(const struct inode *i, const struct erofs_params *params,
		  struct chunks *ret, struct error *err) MUST_CHECK;

/* Walks the chunks from the first on. */
struct chunk_iter {
	const struct inode *inode;
	uint8_t chunkbits;
	uint64_t off;
	/* index of the extent that holds `off` or lies behind it */
	uint32_t at;
};

void chunk_iter_init(struct chunk_iter *it, const struct inode *i,
		     uint8_t chunkbits);

/* Go to the next chunk: false for a hole, true with its place in `*ret_voff`. */
bool chunk_iter_next(struct chunk_iter *it, uint64_t *ret_voff);

#endif
