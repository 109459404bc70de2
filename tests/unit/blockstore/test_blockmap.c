// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "blockstore/blockmap_format.h"
#include "common/bytes.h"
#include "tests/unit/blockstore/image.h"

TestSuite(blockmap, .timeout = 120);

#define REC(i, field) (HEADER_SIZE + (i)*BLOCK_SIZE + (field))

/* A private copy of the map to spoil, and the verdict on it. */
static int verdict(const struct image *img, size_t at, uint64_t v, size_t n,
		   char msg[ERROR_MSG_MAX])
{
	AUTO_FREE uint8_t *copy = malloc(img->map.len);
	struct error err = ERROR_INIT;
	struct blockmap m;
	uint8_t le[8];
	int rc;

	cr_assert_not_null(copy);
	memcpy(copy, img->map.data, img->map.len);
	put_le64(le, v);
	memcpy(copy + at, le, n);
	rc = blockmap_open(copy, img->map.len, &m, &err);
	memcpy(msg, err.msg, ERROR_MSG_MAX);
	return rc;
}

Test(blockmap, what_the_writer_wrote_is_what_the_reader_reads)
{
	struct image img;
	struct block b;
	struct pack p;

	image_make(&img, 1, 10, 8192, 4);
	cr_assert_eq(img.map.n_blocks, 10);
	cr_assert_eq(img.map.n_packs, 3);
	cr_expect_eq(img.map.device_size, 81920);
	for (size_t i = 0; i < 10; i++) {
		AUTO_FREE uint8_t *got = malloc(8192);
		struct error err = ERROR_INIT;

		blockmap_block(&img.map, i, &b);
		cr_expect_eq(b.voff, i * 8192);
		cr_expect_eq(b.pack, i / 4);
		cr_expect_eq(b.usize, i % 3 == 2 ? 8092 : 8192);
		cr_expect_eq(b.codec, i % 2);
		cr_assert_eq(block_unpack(&b, img.packs[b.pack] + b.poff, got,
					  &err),
			     0, "%s", err.msg);
		cr_expect_arr_eq(got, image_plain(&img, i), b.usize);
	}
	blockmap_pack(&img.map, 2, &p);
	cr_expect_eq(p.size, img.pack_size[2]);
	image_fini(&img);
}

Test(blockmap, find_covers_padding_and_nothing_else)
{
	AUTO(blockmap_writer) w = blockmap_writer_new();
	struct error err = ERROR_INIT;
	struct pack p = { .size = 10000 };
	struct block b = { .usize = 5000, .csize = 5000 };
	AUTO_FREE void *data = NULL;
	struct blockmap m;
	uint32_t index;
	size_t len;

	cr_assert_eq(blockmap_writer_pack(w, &p, &index, &err), 0);
	b.voff = 4096;
	cr_assert_eq(blockmap_writer_block(w, &b, &err), 0);
	b.voff = 16384; /* shares the stored place of the first */
	cr_assert_eq(blockmap_writer_block(w, &b, &err), 0);
	cr_assert_eq(blockmap_writer_finish(w, 32768, &data, &len, &err), 0,
		     "%s", err.msg);
	cr_assert_eq(blockmap_open(data, len, &m, &err), 0, "%s", err.msg);
	cr_expect_eq(blockmap_find(&m, 0), 2);
	cr_expect_eq(blockmap_find(&m, 4095), 2);
	cr_expect_eq(blockmap_find(&m, 4096), 0);
	cr_expect_eq(blockmap_find(&m, 4096 + 8191), 0);
	cr_expect_eq(blockmap_find(&m, 4096 + 8192), 2);
	cr_expect_eq(blockmap_find(&m, 16384), 1);
	cr_expect_eq(blockmap_find(&m, 16384 + 8192), 2);
	cr_expect_eq(blockmap_find(&m, UINT64_MAX), 2);
}

Test(blockmap, a_map_without_blocks_is_valid)
{
	AUTO(blockmap_writer) w = blockmap_writer_new();
	struct error err = ERROR_INIT;
	AUTO_FREE void *data = NULL;
	struct blockmap m;
	size_t len;

	cr_assert_eq(blockmap_writer_finish(w, 0, &data, &len, &err), 0);
	cr_assert_eq(blockmap_open(data, len, &m, &err), 0);
	cr_expect_eq(blockmap_find(&m, 0), 0);
}

Test(blockmap, absurd_entries_are_refused_and_named)
{
	static const struct {
		size_t at;
		uint64_t value;
		size_t bytes;
		int rc;
		const char *says;
	} cases[] = {
		{ HEADER_MAGIC, 'X', 1, -EINVAL, "magic" },
		{ HEADER_VERSION, 3, 4, -ENOTSUP, "version 3" },
		{ HEADER_VERSION, 2, 4, -EINVAL, "no layers" },
		{ HEADER_N_SPANS, 1, 4, -EINVAL, "reserved" },
		{ HEADER_N_BLOCKS, 11, 8, -EINVAL, "do not hold" },
		{ HEADER_N_BLOCKS, UINT64_MAX, 8, -EINVAL, "too many" },
		{ HEADER_N_BLOCKS, 1ull << 58, 8, -EINVAL, "too many" },
		{ HEADER_N_PACKS, UINT32_MAX, 4, -EINVAL, "too many" },
		{ HEADER_DEVICE_SIZE, 81921, 8, -EINVAL, "device size" },
		{ HEADER_DEVICE_SIZE, 1ull << 63, 8, -EINVAL, "device size" },
		{ HEADER_DEVICE_SIZE, 40960, 8, -EINVAL,
		  "block 5: ends past the device" },
		{ HEADER_RESERVED, 1, 1, -EINVAL, "reserved header" },
		{ REC(3, BLOCK_VOFF), 8192, 8, -EINVAL, "block 3: overlaps" },
		{ REC(3, BLOCK_VOFF), 24577, 8, -EINVAL, "not aligned" },
		{ REC(9, BLOCK_VOFF), -4096ull, 8, -EINVAL, "past the device" },
		{ REC(3, BLOCK_POFF), UINT64_MAX, 8, -EINVAL, "past its pack" },
		{ REC(3, BLOCK_USIZE), 0, 4, -EINVAL, "block 3: size" },
		{ REC(3, BLOCK_USIZE), 1u << 31, 4, -EINVAL, "size out" },
		{ REC(3, BLOCK_CSIZE), 0, 4, -EINVAL, "compressed size" },
		{ REC(3, BLOCK_CSIZE), UINT32_MAX, 4, -EINVAL, "compressed" },
		{ REC(4, BLOCK_CSIZE), 8191, 4, -EINVAL, "sizes differ" },
		{ REC(3, BLOCK_PACK), 3, 4, -EINVAL, "no such pack" },
		{ REC(3, BLOCK_CODEC), 2, 1, -EINVAL, "unknown codec" },
		{ REC(3, BLOCK_RESERVED), 1, 1, -EINVAL, "reserved bytes" },
		{ REC(10, PACK_BYTES), 0, 8, -EINVAL, "pack 0: size" },
		{ REC(10, PACK_BYTES), UINT64_MAX, 8, -EINVAL, "pack 0: size" },
		{ REC(10, PACK_BYTES), 100, 8, -EINVAL, "past its pack" },
	};
	char msg[ERROR_MSG_MAX];
	struct image img;

	image_make(&img, 1, 10, 8192, 4);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int rc = verdict(&img, cases[i].at, cases[i].value,
				 cases[i].bytes, msg);

		cr_expect_eq(rc, cases[i].rc, "case %zu: %d %s", i, rc, msg);
		cr_expect(strstr(msg, cases[i].says), "case %zu: %s", i, msg);
	}
	image_fini(&img);
}

Test(blockmap, every_truncation_is_refused)
{
	struct error err = ERROR_INIT;
	struct blockmap m;
	struct image img;

	image_make(&img, 1, 10, 8192, 4);
	for (size_t len = 0; len < img.map.len; len++) {
		/* Its own allocation, so that a read past it is seen. */
		AUTO_FREE uint8_t *copy = malloc(len ? len : 1);

		memcpy(copy, img.map.data, len);
		cr_expect_eq(blockmap_open(copy, len, &m, &err), -EINVAL,
			     "%zu bytes", len);
	}
	image_fini(&img);
}

Test(blockmap, the_writer_refuses_what_no_reader_would_open)
{
	AUTO(blockmap_writer) w = blockmap_writer_new();
	struct block b = { .usize = 4096, .csize = 4096, .pack = 0 };
	struct error err = ERROR_INIT;
	void *data;
	size_t len;

	cr_assert_eq(blockmap_writer_block(w, &b, &err), 0);
	cr_expect_eq(blockmap_writer_finish(w, 4096, &data, &len, &err),
		     -EINVAL);
	cr_expect(strstr(err.msg, "no such pack"), "%s", err.msg);
}

TestSuite(block_codec, .timeout = 120);

Test(block_codec, a_block_is_what_was_packed)
{
	static uint8_t text[65536], dst[65536], got[65536];
	struct error err = ERROR_INIT;
	struct block b = { .voff = 0 };

	text[1000] = 1;
	image_pack_block(text, sizeof(text), dst, &b);
	cr_expect_eq(b.codec, BLOCK_CODEC_ZSTD);
	cr_assert_eq(digest_of(text, sizeof(text), &b.digest), 0);
	cr_assert_eq(block_unpack(&b, dst, got, &err), 0, "%s", err.msg);
	cr_expect_arr_eq(got, text, sizeof(text));
}

Test(block_codec, wrong_content_and_wrong_sizes_are_bad_messages)
{
	static uint8_t text[65536], dst[65536], got[65536];
	struct error err = ERROR_INIT;
	struct block b = { .voff = 0 };

	image_pack_block(text, 65536, dst, &b);
	cr_expect_eq(block_unpack(&b, dst, got, &err), -EBADMSG);
	cr_expect(strstr(err.msg, "content is sha256:"), "%s", err.msg);
	cr_assert_eq(digest_of(text, sizeof(text), &b.digest), 0);
	b.usize--; /* a bomb: unpacks to more than it says */
	cr_expect_eq(block_unpack(&b, dst, got, &err), -EBADMSG);
	b.usize += 2;
	b.usize = 65536;
	b.csize -= 3;
	cr_expect_eq(block_unpack(&b, dst, got, &err), -EBADMSG);
}

/* Those before 0.8 are read by libzstd, too, by code that nobody looks after. */
Test(block_codec, of_zstds_formats_only_todays_is_taken)
{
	static const uint8_t old[] = { 0x27, 0xb5, 0x2f, 0xfd, 0,   0x50,
				       0x40, 0,    5,    'h',  'e', 'l',
				       'l',  'o',  0xc0, 0,    0 };
	struct block b = { .usize = 5,
			   .csize = sizeof(old),
			   .codec = BLOCK_CODEC_ZSTD };
	struct error err = ERROR_INIT;
	uint8_t got[5];

	cr_assert_eq(digest_of("hello", 5, &b.digest), 0);
	cr_expect_eq(block_unpack(&b, old, got, &err), -EBADMSG);
}

Test(block_codec, a_block_is_one_frame)
{
	static uint8_t text[8192], dst[8192], got[8192];
	struct error err = ERROR_INIT;
	struct block b = { .voff = 0 }, half = { .voff = 0 };

	image_pack_block(text, 4096, dst, &b);
	image_pack_block(text, 4096, dst + b.csize, &half);
	b.csize += half.csize;
	b.usize = sizeof(text);
	cr_assert_eq(digest_of(text, sizeof(text), &b.digest), 0);
	cr_expect_eq(block_unpack(&b, dst, got, &err), -EBADMSG);
}
