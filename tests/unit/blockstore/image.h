// SPDX-License-Identifier: Apache-2.0
/* A made-up image for tests: blocks of known content in packs in memory. */
#ifndef BOOTSEER_TESTS_UNIT_BLOCKSTORE_IMAGE_H
#define BOOTSEER_TESTS_UNIT_BLOCKSTORE_IMAGE_H

#include "blockstore/blockstore.h"

struct image {
	struct blockmap map;
	void *map_data;
	uint8_t *device; /* expected content, map.device_size bytes */
	uint8_t **packs; /* stored bytes */
	uint64_t *pack_size;
	size_t n_packs;
};

/*
 * `n` blocks of `usize` bytes (every third one 100 bytes shorter, so that it
 * has padding; every second one compressible) in packs of `per_pack` blocks.
 * `seed` decides the content: with IMAGE_HOLLOW blocks are zeros but for their numbers,
 * so that they pack to next to nothing.
 */
#define IMAGE_HOLLOW 0u
void image_make(struct image *img, unsigned int seed, size_t n, uint32_t usize,
		size_t per_pack);
void image_fini(struct image *img);

/* Write the stored form of `usize` bytes to `dst`, which holds usize bytes, and fill codec, usize
 * and csize of `b`: raw when it is not shorter than by a sixteenth. */
void image_pack_block(const void *plain, uint32_t usize, void *dst,
		      struct block *b);

/* The expected content of block `i`. */
const uint8_t *image_plain(const struct image *img, size_t i);

#endif
