// SPDX-License-Identifier: Apache-2.0
#include "image/artifact/parts.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "blockstore/blockstore.h"
#include "common/bytes.h"

TestSuite(parts, .timeout = 120);

static struct error err;

/* `n` parts of `size` bytes, part k with the digest of bytes k + 1. */
static struct parts make(uint32_t n, uint32_t size)
{
	struct parts p = { .digests = calloc(n, sizeof(*p.digests)),
			   .n = n,
			   .size = size };

	cr_assert_not_null(p.digests);
	for (uint32_t k = 0; k < n; k++)
		memset(p.digests[k].b, (int)(k % 255) + 1, DIGEST_SIZE);
	return p;
}

Test(parts, grow_with_the_blob_so_that_their_number_is_bounded)
{
	static const struct {
		uint64_t blob;
		uint32_t size;
	} cases[] = {
		{ 0, 0 },
		{ 256 * KIB - 1, 0 },
		{ 256 * KIB, 256 * KIB },
		{ 64 * MIB, 256 * KIB },
		{ 64 * MIB + 1, 512 * KIB },
		{ 512 * MIB + 1, 4 * MIB },
		{ 1024 * MIB, 4 * MIB },
		{ 1024 * MIB + 1, 0 },
		{ UINT64_MAX, 0 },
	};

	for (size_t k = 0; k < ARRAY_SIZE(cases); k++)
		cr_expect_eq(parts_size(cases[k].blob), cases[k].size,
			     "case %zu", k);
}

Test(parts, are_read_as_they_were_written)
{
	struct parts p = make(PARTS_MAX, 512 * KIB), q;
	uint64_t blob = 255 * 512 * KIB + 1;
	AUTO_BUF text = BUF_INIT;

	cr_assert_eq(parts_format(&p, &text, &err), 0, "%s", err.msg);
	cr_expect_lt(text.len, 17 * KIB);
	cr_assert_eq(parts_parse(text.data, blob, &q, &err), 0, "%s", err.msg);
	cr_expect_eq(q.n, PARTS_MAX);
	cr_expect_eq(q.size, 512 * KIB);
	cr_expect_eq(memcmp(p.digests, q.digests, sizeof(*p.digests) * p.n), 0);
	parts_fini(&p);
	parts_fini(&q);
}

/* The text of two good parts, with `from` replaced by `to`, of such a blob. */
static int parse_changed(const char *from, const char *to, uint64_t blob)
{
	struct parts p = make(2, 256 * KIB), q = { .n = 0 };
	AUTO_BUF text = BUF_INIT;
	AUTO_BUF changed = BUF_INIT;
	const char *at;
	int rc;

	cr_assert_eq(parts_format(&p, &text, &err), 0);
	at = strstr(text.data, from);
	cr_assert(at, "%s", from);
	cr_assert_eq(buf_append(&changed, text.data, (size_t)(at - text.data)),
		     0);
	cr_assert_eq(buf_puts(&changed, to), 0);
	cr_assert_eq(buf_puts(&changed, at + strlen(from)), 0);
	err.msg[0] = '\0';
	rc = parts_parse(changed.data, blob, &q, &err);
	parts_fini(&p);
	parts_fini(&q);
	return rc;
}

Test(parts, that_are_absurd_are_refused_by_name)
{
	static const struct {
		const char *from, *to, *says;
		uint64_t blob;
	} cases[] = {
		{ "262144:", "", "size", 300 * KIB },
		{ "262144:", "262144", "size", 300 * KIB },
		{ "262144:", "0262144:", "size", 300 * KIB },
		{ "262144:", "-262144:", "size", 300 * KIB },
		{ "262144:", "262145:", "size", 300 * KIB },
		{ "262144:", "131072:", "size", 300 * KIB },
		{ "262144:", "8388608:", "size", 300 * KIB },
		{ "262144:", "99999999999999999999:", "size", 300 * KIB },
		/* The number of parts is not the blob's. */
		{ "262144:", "524288:", "digits", 300 * KIB },
		{ "0101", "", "digits", 300 * KIB },
		{ "0202", "020202", "digits", 300 * KIB },
		{ "0101", "0101", "digits", 256 * KIB },
		{ "0101", "0101", "digits", 513 * KIB },
		{ "0101", "0101", "not 1 to 256", 0 },
		{ "0101", "0101", "not 1 to 256", 64 * MIB + 1 },
		{ "0101", "0101", "not 1 to 256", UINT64_MAX },
		/* Digits that are none. */
		{ "0101", "01g1", "part 0", 300 * KIB },
		{ "0202", "02A2", "part 1", 300 * KIB },
		{ "0202", "02 2", "part 1", 300 * KIB },
	};

	cr_assert_eq(parse_changed("0101", "0101", 300 * KIB), 0, "%s",
		     err.msg);
	for (size_t k = 0; k < ARRAY_SIZE(cases); k++) {
		cr_expect_eq(parse_changed(cases[k].from, cases[k].to,
					   cases[k].blob),
			     -EINVAL, "case %zu", k);
		cr_expect(strstr(err.msg, "parts") &&
				  strstr(err.msg, cases[k].says),
			  "case %zu: %s", k, err.msg);
	}
}

Test(parts, of_blobs_are_the_blocks_of_an_image)
{
	struct oci_descriptor meta = { .size = 2 * 512 * KIB + 5 };
	struct oci_descriptor map = { .size = 256 * KIB };
	struct parts a = make(3, 512 * KIB), b = make(1, 256 * KIB);
	struct parts_blob blobs[] = { { &meta, &a }, { &map, &b } };
	AUTO_FREE void *data = NULL;
	struct blockmap m;
	struct block block;
	struct pack pack;
	size_t len;

	memset(meta.digest.b, 0xaa, DIGEST_SIZE);
	memset(map.digest.b, 0xbb, DIGEST_SIZE);
	cr_assert_eq(parts_map(blobs, 2, &data, &len, &err), 0, "%s", err.msg);
	cr_assert_eq(blockmap_open(data, len, &m, &err), 0, "%s", err.msg);
	cr_expect_eq(m.n_packs, 2);
	cr_assert_eq(m.n_blocks, 4);
	blockmap_pack(&m, 1, &pack);
	cr_expect(digest_equal(&pack.digest, &map.digest));
	cr_expect_eq(pack.size, map.size);
	blockmap_block(&m, 2, &block);
	cr_expect(digest_equal(&block.digest, &a.digests[2]));
	cr_expect_eq(block.codec, BLOCK_CODEC_RAW);
	cr_expect_eq(block.poff, 2 * 512 * KIB);
	cr_expect_eq(block.usize, 5);
	cr_expect_eq(block.csize, 5);
	blockmap_block(&m, 3, &block);
	cr_expect_eq(block.pack, 1);
	cr_expect_eq(block.poff, 0);
	parts_fini(&a);
	parts_fini(&b);
}

Test(parts, of_one_blob_alone_are_one_pack)
{
	struct oci_descriptor meta = { .size = 300 * KIB };
	struct oci_descriptor map = { .size = 5 };
	struct parts a = make(2, 256 * KIB), none = { .n = 0 };
	struct parts_blob blobs[] = { { &map, &none }, { &meta, &a } };
	AUTO_FREE void *data = NULL;
	struct blockmap m;
	size_t len;

	cr_assert_eq(parts_map(blobs, 2, &data, &len, &err), 0, "%s", err.msg);
	cr_assert_eq(blockmap_open(data, len, &m, &err), 0, "%s", err.msg);
	cr_expect_eq(m.n_packs, 1);
	cr_expect_eq(m.n_blocks, 2);
	cr_expect_eq(parts_map(blobs, 1, &data, &len, &err), -EINVAL);
	parts_fini(&a);
}

Test(parts, a_blob_too_small_for_any_is_passed_on_as_one)
{
	struct oci_descriptor small = { .size = 256 * KIB - 1 };
	struct oci_descriptor large = { .size = UINT64_C(1) << 31 };
	struct oci_descriptor meta = { .size = 300 * KIB };
	struct parts none = { .n = 0 }, own = make(2, 256 * KIB), passed;
	struct parts_blob blob = { &small, &passed };
	AUTO_FREE void *data = NULL;
	struct digest room = { .b = { 0 } };
	struct blockmap m;
	struct block block;
	size_t len;

	memset(small.digest.b, 0xaa, DIGEST_SIZE);
	passed = parts_passed(&none, &small, &room);
	cr_assert_eq(parts_map(&blob, 1, &data, &len, &err), 0, "%s", err.msg);
	cr_assert_eq(blockmap_open(data, len, &m, &err), 0, "%s", err.msg);
	cr_assert_eq(m.n_blocks, 1);
	blockmap_block(&m, 0, &block);
	cr_expect(digest_equal(&block.digest, &small.digest));
	cr_expect_eq(block.usize, small.size);
	cr_expect_eq(block.csize, small.size);
	/* Of a larger one the manifest says the parts, or nobody does. */
	passed = parts_passed(&own, &meta, &room);
	cr_expect(passed.n == 2 && passed.digests == own.digests);
	cr_expect_eq(parts_passed(&none, &meta, &room).n, 0);
	cr_expect_eq(parts_passed(&none, &large, &room).n, 0);
	cr_expect_eq(parts_passed(&none, &(struct oci_descriptor){ .size = 0 },
				  &room)
			     .n,
		     0);
	parts_fini(&own);
}
