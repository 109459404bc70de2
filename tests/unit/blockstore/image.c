// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/blockstore/image.h"

#include <criterion/criterion.h>
#include <string.h>
#include <zstd.h>

#include "common/bytes.h"

static void fill(uint8_t *p, size_t len, uint64_t seed, bool compressible)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;

	for (size_t i = 0; i < len; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		p[i] = compressible ? (uint8_t)(x >> 62) : (uint8_t)(x >> 30);
	}
}

void image_pack_block(const void *plain, uint32_t usize, void *dst,
		      struct block *b)
{
	size_t n = ZSTD_compress(dst, usize - usize / 16, plain, usize, 3);

	b->usize = usize;
	b->codec = ZSTD_isError(n) ? BLOCK_CODEC_RAW : BLOCK_CODEC_ZSTD;
	b->csize = ZSTD_isError(n) ? usize : (uint32_t)n;
	if (ZSTD_isError(n))
		memcpy(dst, plain, usize);
}

/* Store block `i` at the end of its pack. */
static void add_block(struct image *img, struct blockmap_writer *w, size_t i,
		      uint32_t usize, uint32_t pack)
{
	struct error err = ERROR_INIT;
	uint64_t *end = &img->pack_size[pack];
	struct block b = { .voff = i * round_up(usize, BLOCK_ALIGN),
			   .poff = *end,
			   .pack = pack };
	uint32_t size = i % 3 == 2 && usize > 100 ? usize - 100 : usize;
	const uint8_t *plain = img->device + b.voff;

	cr_assert_eq(digest_of(plain, size, &b.digest), 0);
	image_pack_block(plain, size, img->packs[pack] + *end, &b);
	*end += b.csize;
	cr_assert_eq(blockmap_writer_block(w, &b, &err), 0);
}

void image_make(struct image *img, unsigned int seed, size_t n, uint32_t usize,
		size_t per_pack)
{
	AUTO(blockmap_writer) w = blockmap_writer_new();
	uint64_t span = round_up(usize, BLOCK_ALIGN);
	struct error err = ERROR_INIT;
	size_t len;

	memset(img, 0, sizeof(*img));
	img->n_packs = (n + per_pack - 1) / per_pack;
	img->device = calloc(n, span);
	img->packs = calloc(img->n_packs, sizeof(*img->packs));
	img->pack_size = calloc(img->n_packs, sizeof(*img->pack_size));
	cr_assert(w && img->device && img->packs && img->pack_size);
	for (size_t i = 0; i < n; i++) {
		uint32_t size = i % 3 == 2 && usize > 100 ? usize - 100 : usize;
		size_t pack = i / per_pack;

		if (!img->packs[pack])
			img->packs[pack] = malloc(per_pack * usize);
		if (seed == IMAGE_HOLLOW)
			memcpy(img->device + i * span, &i, sizeof(i));
		else
			fill(img->device + i * span, size, seed * 1000003u + i,
			     i % 2);
		add_block(img, w, i, usize, (uint32_t)pack);
	}
	for (size_t i = 0; i < img->n_packs; i++) {
		struct pack p = { .size = img->pack_size[i] };
		uint32_t index;

		cr_assert_eq(digest_of(img->packs[i], p.size, &p.digest), 0);
		cr_assert_eq(blockmap_writer_pack(w, &p, &index, &err), 0);
	}
	cr_assert_eq(blockmap_writer_finish(w, n * span, &img->map_data, &len,
					    &err),
		     0, "%s", err.msg);
	cr_assert_eq(blockmap_open(img->map_data, len, &img->map, &err), 0);
}

void image_fini(struct image *img)
{
	for (size_t i = 0; i < img->n_packs; i++)
		free(img->packs[i]);
	free(img->packs);
	free(img->pack_size);
	free(img->device);
	free(img->map_data);
}

const uint8_t *image_plain(const struct image *img, size_t i)
{
	struct block b;

	blockmap_block(&img->map, i, &b);
	return img->device + b.voff;
}
