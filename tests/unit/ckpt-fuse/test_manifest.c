// SPDX-License-Identifier: Apache-2.0
/* Tests the format of manifests, and the places of chunks. */
#include "ckpt-fuse/manifest.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "common/crc32c.h"

#define UNIT_MAX (64 * MIB)

TestSuite(manifest, .timeout = 120);

/* Made by hand from docs/formats/checkpoint.md, with a checksum of another program. */
static const uint8_t golden[] = {
	0x42, 0x53, 0x45, 0x45, 0x52, 0x43, 0x4b, 0x50, 0x01, 0x00, 0x00, 0x00,
	0x00, 0x10, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00,
	0x20, 0x4e, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x07, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	0xa0, 0x01, 0x00, 0x00, 0xe8, 0x03, 0x00, 0x00, 0x64, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab,
	0xac, 0xad, 0xae, 0xaf, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x28, 0x23, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00,
	0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	0xff, 0xff, 0xff, 0x01, 0x00, 0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x44, 0x33, 0x22, 0x11, 0x05, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff,
	0x00, 0x00, 0x00, 0x80, 0x78, 0x0e, 0x3b, 0x74, 0x00, 0x00, 0x00, 0x00,
	0xe0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
};

#define HEADER 96u
#define SEGMENT 48u
#define FOOTER 16u

static void *copy(const void *data, size_t len)
{
	/* Allocate exactly so many bytes, so that a sanitizer finds reads beyond them. */
	void *p = malloc(len ? len : 1);

	cr_assert_not_null(p);
	memcpy(p, data, len);
	return p;
}

/* Correct the checksum and the length. */
static void seal(uint8_t *p, size_t len)
{
	put_le32(p + len - FOOTER, crc32c(0, p, len - FOOTER));
	put_le32(p + len - FOOTER + 4, 0);
	put_le64(p + len - FOOTER + 8, len);
}

static int decode(const void *data, size_t len, struct manifest **ret)
{
	struct error err = ERROR_INIT;
	void *p = copy(data, len);
	int rc = manifest_decode(p, len, ret, &err);

	if (rc < 0)
		cr_expect(err.code == -rc && *err.msg, "nobody is told why");
	free(p);
	return rc;
}

/* ------------------------------------------------------------------- the bytes --- */

Test(manifest, reads_the_golden_bytes)
{
	struct manifest *m = NULL;

	cr_assert_eq(decode(golden, sizeof(golden), &m), 0);
	cr_expect_eq(m->chunk_size, 4096);
	cr_expect_eq(m->unit_chunks, 2);
	cr_expect_eq(m->size, 20000);
	cr_expect_eq(m->generation, 7);
	cr_expect_eq(m->attr.mtime_ns, -2);
	cr_expect_eq(m->attr.mode, 0640);
	cr_expect_eq(m->attr.uid, 1000);
	cr_expect_eq(m->attr.gid, 100);
	cr_assert_eq(m->n_segments, 2);
	cr_assert_eq(m->n_chunks, 4);
	cr_expect_eq(m->segments[0].id[0], 0xa0);
	cr_expect_eq(m->segments[0].id[15], 0xaf);
	cr_expect_eq(m->segments[0].start, 0);
	cr_expect_eq(m->segments[0].length, 9000);
	cr_expect_eq(m->segments[0].columns, 2);
	cr_expect_eq(m->segments[0].rotation, 1);
	cr_expect_eq(m->segments[0].first_chunk, 0);
	cr_expect_eq(m->segments[1].start, 16384);
	cr_expect_eq(m->segments[1].length, 1);
	cr_expect_eq(m->segments[1].columns, 1);
	cr_expect_eq(m->segments[1].rotation, 0);
	cr_expect_eq(m->segments[1].first_chunk, 3);
	cr_expect_eq(m->crcs[0], 0x11223344);
	cr_expect_eq(m->crcs[3], 0x80000000);
	manifest_free(m);
}

static struct manifest *golden_manifest(void)
{
	struct error err = ERROR_INIT;
	struct manifest *m = NULL;

	cr_assert_eq(manifest_new(2, 4, &m, &err), 0);
	m->chunk_size = 4096;
	m->unit_chunks = 2;
	m->size = 20000;
	m->generation = 7;
	m->attr = (struct ckpt_attr){
		.mode = 0640, .uid = 1000, .gid = 100, .mtime_ns = -2
	};
	m->segments[0] = (struct ckpt_segment){ .length = 9000,
						.columns = 2,
						.rotation = 1 };
	m->segments[1] = (struct ckpt_segment){
		.start = 16384, .length = 1, .columns = 1, .first_chunk = 3
	};
	for (unsigned int i = 0; i < SEGMENT_ID; i++)
		m->segments[0].id[i] = (uint8_t)(0xa0 + i);
	memset(m->segments[1].id, 0xff, SEGMENT_ID);
	m->segments[1].id[15] = 1;
	m->crcs[0] = 0x11223344;
	m->crcs[1] = 5;
	m->crcs[2] = 0xffffffff;
	m->crcs[3] = 0x80000000;
	return m;
}

Test(manifest, writes_the_golden_bytes_behind_what_is_there)
{
	struct manifest *m = golden_manifest();
	struct error err = ERROR_INIT;
	AUTO_BUF out = BUF_INIT;

	cr_assert_eq(buf_puts(&out, "x"), 0);
	cr_assert_eq(manifest_encode(m, &out, &err), 0, "%s", err.msg);
	cr_assert_eq(out.len, sizeof(golden) + 1);
	cr_expect_eq(out.data[0], 'x');
	cr_expect_arr_eq(out.data + 1, golden, sizeof(golden));
	manifest_free(m);
}

static uint64_t random_state = 88172645463325252;

static uint64_t random_below(uint64_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % n;
}

static void random_segment(const struct manifest *m, struct ckpt_segment *s,
			   uint64_t from)
{
	uint64_t unit = manifest_unit(m);

	for (unsigned int i = 0; i < SEGMENT_ID; i++)
		s->id[i] = (uint8_t)random_below(256);
	s->start = (from + unit - 1) / unit * unit + random_below(3) * unit;
	s->length = 1 + random_below(5 * unit);
	s->columns = 1 + (uint32_t)random_below(COLUMNS_MAX);
	s->rotation = (uint32_t)random_below(s->columns);
}

static struct manifest *random_manifest(void)
{
	struct manifest shape = {
		.chunk_size = 4096u << random_below(13),
		.unit_chunks = 1 + (uint32_t)random_below(64),
		.size = random_below(UINT64_C(1) << 62),
		.generation = random_below(UINT64_MAX),
		.attr = { .mode = (uint32_t)random_below(010000),
			  .uid = (uint32_t)random_below(UINT32_MAX),
			  .gid = (uint32_t)random_below(UINT32_MAX),
			  .mtime_ns = (int64_t)random_below(UINT64_MAX) },
	};
	struct ckpt_segment segments[8] = { { .start = 0 } };
	struct error err = ERROR_INIT;
	struct manifest *m = NULL;
	uint64_t from = 0;

	while (manifest_unit(&shape) > UNIT_MAX)
		shape.unit_chunks /= 2;
	shape.n_segments = random_below(9);
	for (size_t i = 0; i < shape.n_segments; i++) {
		random_segment(&shape, &segments[i], from);
		from = segments[i].start + segments[i].length;
		segments[i].first_chunk = shape.n_chunks;
		shape.n_chunks += segment_chunks(&shape, &segments[i]);
	}
	cr_assert_eq(manifest_new(shape.n_segments, shape.n_chunks, &m, &err),
		     0);
	shape.segments = m->segments;
	shape.crcs = m->crcs;
	*m = shape;
	memcpy(m->segments, segments, shape.n_segments * sizeof(*segments));
	for (uint64_t i = 0; i < m->n_chunks; i++)
		m->crcs[i] = (uint32_t)random_below(UINT64_C(1) << 32);
	return m;
}

static void expect_same(const struct manifest *a, const struct manifest *b)
{
	cr_expect_eq(a->chunk_size, b->chunk_size);
	cr_expect_eq(a->unit_chunks, b->unit_chunks);
	cr_expect_eq(a->size, b->size);
	cr_expect_eq(a->generation, b->generation);
	cr_expect_eq(a->attr.mode, b->attr.mode);
	cr_expect_eq(a->attr.uid, b->attr.uid);
	cr_expect_eq(a->attr.gid, b->attr.gid);
	cr_expect_eq(a->attr.mtime_ns, b->attr.mtime_ns);
	cr_assert_eq(a->n_segments, b->n_segments);
	cr_assert_eq(a->n_chunks, b->n_chunks);
	cr_expect_arr_eq(a->crcs, b->crcs, a->n_chunks * sizeof(*a->crcs));
	for (size_t i = 0; i < a->n_segments; i++) {
		const struct ckpt_segment *s = &a->segments[i],
					  *t = &b->segments[i];

		cr_expect_arr_eq(s->id, t->id, SEGMENT_ID);
		cr_expect_eq(s->start, t->start);
		cr_expect_eq(s->length, t->length);
		cr_expect_eq(s->columns, t->columns);
		cr_expect_eq(s->rotation, t->rotation);
		cr_expect_eq(s->first_chunk, t->first_chunk);
	}
}

Test(manifest, what_was_encoded_comes_back)
{
	for (int i = 0; i < 300; i++) {
		struct manifest *m = random_manifest(), *again = NULL;
		struct manifest head = { .size = 0 };
		struct error err = ERROR_INIT;
		AUTO_BUF out = BUF_INIT;
		uint64_t len = 0;

		cr_assert_eq(manifest_encode(m, &out, &err), 0, "%s", err.msg);
		cr_assert_eq(decode(out.data, out.len, &again), 0);
		expect_same(again, m);
		cr_expect_eq(manifest_decode_header(out.data, HEADER, &head,
						    &len, &err),
			     0, "%s", err.msg);
		cr_expect_eq(len, out.len);
		cr_expect_eq(head.size, m->size);
		cr_expect_eq(head.generation, m->generation);
		cr_expect_eq(head.attr.mtime_ns, m->attr.mtime_ns);
		manifest_free(again);
		manifest_free(m);
	}
}

/* ------------------------------------------------------------------- the rules --- */

struct rule {
	const char *what;
	size_t at, bytes; /* place in the golden manifest */
	uint64_t value;
	int rc;
};

#define SEG(n) (HEADER + (n)*SEGMENT)

static const struct rule rules[] = {
	{ "as it is", 24, 8, 20000, 0 },
	{ "another magic", 0, 1, 'b', -EBADMSG },
	{ "version 0", 8, 4, 0, -ENOTSUP },
	{ "version 2, without what it is for", 8, 4, 2, -EBADMSG },
	{ "version 3 without a place", 8, 4, 3, -EBADMSG },
	{ "version 4", 8, 4, 4, -ENOTSUP },
	{ "extended attributes in version 1", 72, 4, 7, -EBADMSG },
	{ "chunks of 2 KiB", 12, 4, 2048, -EBADMSG },
	{ "chunks of 0 bytes", 12, 4, 0, -EBADMSG },
	{ "chunks of 32 MiB", 12, 4, 32u << 20, -EBADMSG },
	{ "chunks of no power of two", 12, 4, 4096 + 512, -EBADMSG },
	{ "another chunk size, and so their count", 12, 4, 8192, -EBADMSG },
	{ "no chunk in a unit", 16, 4, 0, -EBADMSG },
	{ "one chunk in a unit is no damage here", 16, 4, 1, 0 },
	{ "65 chunks in a unit", 16, 4, 65, -EBADMSG },
	{ "a segment less", 20, 4, 1, -EBADMSG },
	{ "a segment more", 20, 4, 3, -EBADMSG },
	{ "more segments than chunks", 20, 4, 5, -EBADMSG },
	{ "too many segments", 20, 4, 65537, -EBADMSG },
	{ "the largest file", 24, 8, UINT64_C(1) << 62, 0 },
	{ "too large a file", 24, 8, (UINT64_C(1) << 62) + 1, -EBADMSG },
	{ "too large a file by far", 24, 8, UINT64_MAX, -EBADMSG },
	{ "any generation", 32, 8, UINT64_MAX, 0 },
	{ "a time long ago", 40, 8, UINT64_C(1) << 63, 0 },
	{ "all permissions", 48, 4, 07777, 0 },
	{ "more permissions", 48, 4, 010000, -EBADMSG },
	{ "uid is any", 52, 4, UINT32_MAX, 0 },
	{ "gid is any", 56, 4, UINT32_MAX, 0 },
	{ "byte 60 is zero", 60, 1, 1, -EBADMSG },
	{ "byte 63 is zero", 63, 1, 1, -EBADMSG },
	{ "a chunk less", 64, 8, 3, -EBADMSG },
	{ "a chunk more", 64, 8, 5, -EBADMSG },
	{ "so many chunks that the sum wraps", 64, 8, UINT64_C(1) << 62,
	  -EBADMSG },
	{ "too many chunks", 64, 8, UINT64_MAX, -EBADMSG },
	{ "byte 72 is zero", 72, 1, 1, -EBADMSG },
	{ "byte 95 is zero", 95, 1, 1, -EBADMSG },
	{ "a segment in the midst of a unit", SEG(0) + 16, 8, 4096, -EBADMSG },
	{ "a segment far behind", SEG(1) + 16, 8, UINT64_C(1) << 62, 0 },
	{ "too far behind", SEG(1) + 16, 8, (UINT64_C(1) << 62) + 8192,
	  -EBADMSG },
	{ "one that begins near the end of numbers", SEG(1) + 16, 8,
	  UINT64_MAX - 8191, -EBADMSG },
	{ "segments that overlap", SEG(1) + 16, 8, 8192, -EBADMSG },
	{ "the same start twice", SEG(1) + 16, 8, 0, -EBADMSG },
	{ "segments that are not sorted", SEG(0) + 16, 8, 32768, -EBADMSG },
	{ "a segment without a byte", SEG(1) + 24, 8, 0, -EBADMSG },
	{ "a segment of 4096 bytes has one chunk, too", SEG(1) + 24, 8, 4096,
	  0 },
	{ "a segment of one more has two", SEG(1) + 24, 8, 4097, -EBADMSG },
	{ "a segment of all bytes", SEG(1) + 24, 8, UINT64_MAX, -EBADMSG },
	{ "one whose end wraps", SEG(0) + 24, 8, UINT64_MAX - 4095, -EBADMSG },
	{ "no column", SEG(0) + 32, 4, 0, -EBADMSG },
	{ "64 columns", SEG(0) + 32, 4, 64, 0 },
	{ "65 columns", SEG(0) + 32, 4, 65, -EBADMSG },
	{ "a rotation as many as the columns", SEG(0) + 36, 4, 2, -EBADMSG },
	{ "a rotation of anything", SEG(0) + 36, 4, UINT32_MAX, -EBADMSG },
	{ "the zeros of a segment", SEG(0) + 40, 1, 1, -EBADMSG },
	{ "the last zero of a segment", SEG(1) + 47, 1, 1, -EBADMSG },
};

static void put_le(uint8_t *p, size_t bytes, uint64_t value)
{
	for (size_t i = 0; i < bytes; i++)
		p[i] = (uint8_t)(value >> 8 * i);
}

Test(manifest, each_rule_is_checked_though_the_checksum_is_right)
{
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		const struct rule *r = &rules[i];
		uint8_t *p = copy(golden, sizeof(golden));
		struct manifest *m = NULL;
		int rc;

		put_le(p + r->at, r->bytes, r->value);
		seal(p, sizeof(golden));
		rc = decode(p, sizeof(golden), &m);
		cr_expect_eq(rc, r->rc, "%s: %d", r->what, rc);
		cr_expect_eq(m == NULL, rc < 0, "%s", r->what);
		manifest_free(m);
		free(p);
	}
}

/* Version 3 has pieces of segments at any place in their columns. */
Test(manifest, has_segments_that_begin_behind_others_in_their_columns)
{
	uint8_t *p = copy(golden, sizeof(golden));
	struct manifest *m = NULL;
	AUTO_BUF again = BUF_INIT;
	AUTO_FREE size_t *same = NULL;
	struct chunk_place at;

	put_le(p + 8, 4, 3);
	put_le(p + SEG(1) + 40, 8, 5);
	seal(p, sizeof(golden));
	cr_assert_eq(decode(p, sizeof(golden), &m), 0);
	cr_expect_eq(m->segments[0].place, 0);
	cr_expect_eq(m->segments[1].place, 5);
	/* The segment begins with the sixth unit of its columns. */
	at = chunk_place(m, &m->segments[1], 0);
	cr_expect_eq(at.column,
		     (5 + m->segments[1].rotation) % m->segments[1].columns);
	cr_expect_eq(at.off, 5 / m->segments[1].columns * manifest_unit(m));
	cr_expect(segment_has_column(m, &m->segments[1], at.column));
	cr_assert_eq(manifest_encode(m, &again, NULL), 0);
	cr_assert_eq(again.len, sizeof(golden));
	cr_expect_eq(memcmp(again.data, p, sizeof(golden)), 0);
	cr_assert_eq(manifest_same_segments(m, &same, NULL), 0);
	cr_expect_eq(same[1], 1);
	m->segments[1] = m->segments[0];
	free(steal_ptr(&same));
	cr_assert_eq(manifest_same_segments(m, &same, NULL), 0);
	cr_expect_eq(same[1], 0);
	manifest_free(m);
	/* The place is too far behind to exist. */
	put_le(p + SEG(1) + 40, 8, UINT64_MAX);
	seal(p, sizeof(golden));
	cr_expect_eq(decode(p, sizeof(golden), &m), -EBADMSG);
	free(p);
}

Test(manifest, each_byte_that_is_another_is_noticed)
{
	for (size_t i = 0; i < sizeof(golden) * 8; i++) {
		uint8_t *p = copy(golden, sizeof(golden));
		struct manifest *m = NULL;
		int rc;

		p[i / 8] ^= (uint8_t)(1 << i % 8);
		rc = decode(p, sizeof(golden), &m);
		/* Bit 65 makes it version 3, of which only its checksum is wrong. */
		cr_expect_eq(rc,
			     i / 8 >= 8 && i / 8 < 12 && i != 65 ? -ENOTSUP
								 : -EBADMSG,
			     "bit %zu: %d", i, rc);
		cr_expect_null(m);
		free(p);
	}
}

Test(manifest, its_length_is_exactly_what_it_says)
{
	uint8_t longer[sizeof(golden) + 8] = { 0 };
	struct manifest *m = NULL;

	for (size_t len = 0; len < sizeof(golden); len++) {
		uint8_t *p = copy(golden, sizeof(golden));

		if (len >= HEADER + FOOTER)
			seal(p, len);
		cr_expect_eq(decode(p, len, &m), -EBADMSG, "%zu bytes", len);
		free(p);
	}
	for (size_t more = 1; more <= 8; more++) {
		memset(longer, 0, sizeof(longer));
		memcpy(longer, golden, sizeof(golden));
		seal(longer, sizeof(golden) + more);
		cr_expect_eq(decode(longer, sizeof(golden) + more, &m),
			     -EBADMSG, "%zu bytes more", more);
	}
	cr_expect_null(m);
}

/* The CRC does not cover the footer. */
Test(manifest, the_footer_is_checked)
{
	for (size_t at = sizeof(golden) - FOOTER; at < sizeof(golden); at++) {
		uint8_t *p = copy(golden, sizeof(golden));
		struct manifest *m = NULL;

		p[at] ^= 0x40;
		cr_expect_eq(decode(p, sizeof(golden), &m), -EBADMSG,
			     "byte %zu", at);
		cr_expect_null(m);
		free(p);
	}
}

/* Encode a manifest with a segment of `n` chunks; NULL: refused. */
static uint8_t *of_chunks(uint64_t n, uint64_t *ret_len)
{
	uint64_t len = HEADER + SEGMENT + 4 * n + FOOTER;
	uint8_t *p = calloc(1, len);

	cr_assert_not_null(p);
	memcpy(p, golden, HEADER + SEGMENT);
	put_le32(p + 20, 1);
	put_le64(p + 64, n);
	put_le64(p + SEG(0) + 24, n * 4096);
	seal(p, len);
	*ret_len = len;
	return p;
}

Test(manifest, has_at_most_64_mib)
{
	uint64_t most = (MANIFEST_MAX - HEADER - SEGMENT - FOOTER) / 4;

	for (uint64_t n = most; n <= most + 1; n++) {
		struct manifest *m = NULL, *large = NULL;
		struct error err = ERROR_INIT;
		AUTO_BUF out = BUF_INIT;
		uint64_t len = 0;
		uint8_t *p = of_chunks(n, &len);

		cr_expect_eq(manifest_decode(p, len, &m, &err),
			     n > most ? -EBADMSG : 0, "%zu bytes: %s",
			     (size_t)len, err.msg);
		cr_assert_eq(manifest_new(1, n, &large, &err), 0);
		large->segments[0] = (struct ckpt_segment){ .length = n * 4096,
							    .columns = 1 };
		large->chunk_size = 4096;
		large->unit_chunks = 1;
		cr_expect_eq(manifest_encode(large, &out, &err),
			     n > most ? -EFBIG : 0);
		manifest_free(large);
		manifest_free(m);
		free(p);
	}
}

Test(manifest, an_empty_file_has_no_segment)
{
	struct error err = ERROR_INIT;
	struct manifest *m = NULL, *again = NULL;
	AUTO_BUF out = BUF_INIT;

	cr_assert_eq(manifest_new(0, 0, &m, &err), 0);
	m->chunk_size = 1u << 20;
	m->unit_chunks = 4;
	cr_assert_eq(manifest_encode(m, &out, &err), 0);
	cr_expect_eq(out.len, HEADER + FOOTER);
	cr_assert_eq(decode(out.data, out.len, &again), 0);
	cr_expect_eq(again->n_segments, 0);
	cr_expect_eq(manifest_find(again, 0), 0);
	manifest_free(again);
	manifest_free(m);
}

/* ------------------------------------------------------------------ the places --- */

/* Check the place of each chunk by dealing the units out to the columns. */
static void check_places(const struct manifest *m, const struct ckpt_segment *s)
{
	uint64_t filled[COLUMNS_MAX] = { 0 }, sum = 0, at = 0;
	uint64_t chunks = segment_chunks(m, s);
	uint32_t column = s->rotation;

	for (uint64_t c = 0; c < chunks; c++) {
		struct chunk_place p = chunk_place(m, s, c);

		if (c && c % m->unit_chunks == 0)
			column = (column + 1) % s->columns;
		cr_assert_eq(p.column, column, "chunk %zu", (size_t)c);
		cr_assert_eq(p.off, filled[column], "chunk %zu", (size_t)c);
		cr_assert_eq(p.len,
			     s->length - at < m->chunk_size ? s->length - at
							    : m->chunk_size,
			     "chunk %zu", (size_t)c);
		filled[column] += p.len;
		at += p.len;
	}
	cr_assert_eq(at, s->length);
	for (uint32_t c = 0; c < s->columns; c++) {
		cr_assert_eq(segment_column_size(m, s, c), filled[c],
			     "%zu bytes, column %u of %u", (size_t)s->length, c,
			     s->columns);
		sum += filled[c];
	}
	cr_assert_eq(sum, s->length);
}

/* Large units are refused, because a reader holds several in memory. */
Test(manifest, of_units_that_are_too_large_is_refused)
{
	for (uint32_t chunks = 4; chunks <= 5; chunks++) {
		struct error err = ERROR_INIT;
		AUTO(manifest) m = NULL;
		AUTO(manifest) again = NULL;
		AUTO_BUF out = BUF_INIT;

		cr_assert_eq(manifest_new(0, 0, &m, &err), 0);
		m->chunk_size = 16u << 20;
		m->unit_chunks = chunks;
		cr_assert_eq(manifest_encode(m, &out, &err), 0, "%s", err.msg);
		cr_expect_eq(manifest_decode(out.data, out.len, &again, &err),
			     chunks == 4 ? 0 : -EBADMSG);
	}
}

Test(manifest, each_byte_of_a_segment_has_one_place)
{
	static const uint32_t units[] = { 1, 2, 3, 4, 64 };
	static const uint32_t columns[] = { 1, 2, 3, 5, 8, 63, 64 };

	for (size_t u = 0; u < ARRAY_SIZE(units); u++) {
		struct manifest m = { .chunk_size = 4096,
				      .unit_chunks = units[u] };
		uint64_t unit = manifest_unit(&m);

		for (size_t w = 0; w < ARRAY_SIZE(columns); w++) {
			struct ckpt_segment s = { .columns = columns[w] };
			uint64_t around[] = { 1,
					      4096,
					      unit,
					      2 * unit,
					      3 * unit,
					      unit * s.columns,
					      unit * (s.columns + 1),
					      2 * unit * s.columns };

			for (size_t i = 0; i < ARRAY_SIZE(around); i++)
				for (int d = -1; d <= 1; d++) {
					s.length = around[i] + (uint64_t)d;
					s.rotation = (uint32_t)random_below(
						s.columns);
					if (s.length)
						check_places(&m, &s);
				}
		}
	}
}

Test(manifest, each_byte_has_one_place_at_random)
{
	for (int i = 0; i < 3000; i++) {
		struct manifest m = { .chunk_size = 4096u << random_below(13),
				      .unit_chunks =
					      1 + (uint32_t)random_below(64) };
		struct ckpt_segment s = { .start = 0 };

		random_segment(&m, &s, 0);
		s.length = 1 + random_below(manifest_unit(&m) *
					    (1 + random_below(2 * s.columns)));
		check_places(&m, &s);
	}
}

Test(manifest, places_of_the_largest_segments_do_not_wrap)
{
	struct manifest m = { .chunk_size = 16u << 20, .unit_chunks = 64 };

	for (uint32_t w = 1; w <= COLUMNS_MAX; w++) {
		struct ckpt_segment s = { .length = UINT64_C(1) << 62,
					  .columns = w,
					  .rotation = w - 1 };
		uint64_t chunks = segment_chunks(&m, &s), sum = 0;
		struct chunk_place p = chunk_place(&m, &s, chunks - 1);

		cr_expect_eq(chunks, s.length / m.chunk_size);
		cr_expect_eq(p.len, m.chunk_size);
		cr_expect_eq(p.off + p.len,
			     segment_column_size(&m, &s, p.column));
		for (uint32_t c = 0; c < w; c++)
			sum += segment_column_size(&m, &s, c);
		cr_expect_eq(sum, s.length);
	}
}

/* Compare with a linear search. */
Test(manifest, finds_the_segment_of_a_byte_or_the_next)
{
	for (int i = 0; i < 200; i++) {
		struct manifest *m = random_manifest();
		uint64_t end = 10;

		for (size_t k = 0; k < m->n_segments; k++)
			end = m->segments[k].start + m->segments[k].length + 10;
		for (int k = 0; k < 100; k++) {
			uint64_t off = random_below(end);
			size_t want = 0;

			if (k < 40 && m->n_segments) {
				/* at the boundary of a segment */
				const struct ckpt_segment *s =
					&m->segments[random_below(
						m->n_segments)];

				off = s->start + (k % 2 ? s->length : 0) -
				      (k % 4 > 1 && s->start ? 1 : 0);
			}
			while (want < m->n_segments &&
			       off >= m->segments[want].start +
					       m->segments[want].length)
				want++;
			cr_assert_eq(manifest_find(m, off), want);
		}
		cr_expect_eq(manifest_find(m, UINT64_MAX), m->n_segments);
		manifest_free(m);
	}
}

/* ------------------------------------------------------------------- the names --- */

#define ID "00010203040506070809aabbccddeeff"
#define DATA ".bootseer/data/"

static const struct ckpt_segment named = { .id = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9,
						   0xaa, 0xbb, 0xcc, 0xdd, 0xee,
						   0xff } };

Test(manifest, columns_have_the_names_of_the_format)
{
	char name[COLUMN_NAME_MAX];

	column_name(&named, 0, name);
	cr_expect_str_eq(name, DATA "00/" ID "/c00");
	column_name(&named, 63, name);
	cr_expect_str_eq(name, DATA "00/" ID "/c63");
}

Test(manifest, names_of_columns_are_read_back)
{
	for (int i = 0; i < 500; i++) {
		struct ckpt_segment s = { .start = 0 };
		uint8_t id[SEGMENT_ID] = { 0 };
		char name[COLUMN_NAME_MAX];

		for (unsigned int k = 0; k < SEGMENT_ID; k++)
			s.id[k] = (uint8_t)random_below(256);
		column_name(&s, (uint32_t)random_below(COLUMNS_MAX), name);
		cr_expect(column_parse(name, id), "%s", name);
		cr_expect_arr_eq(id, s.id, SEGMENT_ID);
	}
}

static const char *const no_columns[] = {
	"",
	"/",
	".bootseer",
	DATA,
	DATA "00/" ID "/c64",
	DATA "00/" ID "/c99",
	DATA "00/" ID "/c0",
	DATA "00/" ID "/c000",
	DATA "00/" ID "/c0a",
	DATA "00/" ID "/ca0",
	DATA "00/" ID "/c-1",
	DATA "00/" ID "/c+1",
	DATA "00/" ID "/c 1",
	DATA "00/" ID "/d00",
	DATA "00/" ID "/c00/",
	DATA "00/" ID "/c00.bsm",
	DATA "00/" ID "",
	DATA "01/" ID "/c00", /* another's folder */
	DATA "0/" ID "/c00",
	DATA "000/" ID "/c00",
	DATA "../" ID "/c00",
	DATA "00//" ID "/c00",
	DATA "00/00010203040506070809AABBCCDDEEFF/c00",
	DATA "00/00010203040506070809aabbccddeef/c000",
	DATA "00/00010203040506070809aabbccddeefg/c00",
	DATA "00/0001020304050607\0"
	     "0809aabbccddeeff/c00",
	DATA "\xff\xff/\xff\xff"
	     "010203040506070809aabbccddeeff/c0",
	"/" DATA "00/" ID "/c00",
	"x" DATA "00/" ID "/c00",
	".bootseer/Data/00/" ID "/c00",
	".bootseer.data/00/" ID "/c00",
	"%s%s%s%n" DATA "00/" ID "/c00",
};

Test(manifest, nothing_else_is_a_column)
{
	for (size_t i = 0; i < ARRAY_SIZE(no_columns); i++) {
		size_t len = strlen(no_columns[i]) + 1;
		char *name = copy(no_columns[i], len);
		uint8_t id[SEGMENT_ID] = { 0x5a };

		cr_expect_not(column_parse(name, id), "'%s'", name);
		cr_expect_eq(id[0], 0x5a, "'%s'", name);
		free(name);
	}
}

Test(manifest, marks_of_segments_have_names_of_their_own)
{
	char name[COLUMN_NAME_MAX];
	uint8_t id[SEGMENT_ID] = { 0x5a };

	segment_mark_name(named.id, name);
	cr_expect_str_eq(name, DATA "00/" ID "/unnamed");
	cr_expect_not(column_parse(name, id));
	cr_expect(segment_mark_parse(name, id));
	cr_expect_arr_eq(id, named.id, SEGMENT_ID);
	id[0] = 0x5a;
	for (size_t i = 0; i < ARRAY_SIZE(no_columns); i++)
		cr_expect_not(segment_mark_parse(no_columns[i], id), "'%s'",
			      no_columns[i]);
	cr_expect_not(segment_mark_parse(DATA "00/" ID "/c00", id));
	cr_expect_not(segment_mark_parse(DATA "00/" ID "/unnamed0", id));
	cr_expect_not(segment_mark_parse(DATA "01/" ID "/unnamed", id));
	cr_expect_eq(id[0], 0x5a);
}

/* Change each byte of a valid name. */
Test(manifest, a_name_with_another_byte_is_no_column_or_another_one)
{
	char right[COLUMN_NAME_MAX], again[COLUMN_NAME_MAX];

	column_name(&named, 17, right);
	for (size_t at = 0; right[at]; at++)
		for (int c = 0; c < 256; c++) {
			char name[COLUMN_NAME_MAX];
			struct ckpt_segment s = { .start = 0 };

			memcpy(name, right, sizeof(name));
			name[at] = (char)c;
			if (!column_parse(name, s.id))
				continue;
			column_name(&s, (uint32_t)atoi(strrchr(name, 'c') + 1),
				    again);
			cr_expect_str_eq(again, name);
		}
}

/* A forged manifest: a file of 64 KiB with more than a million chunks. */
Test(manifest, has_no_table_for_what_is_behind_the_end)
{
	const uint64_t n = 1u << 20;
	struct manifest *m = NULL, *back = NULL;
	struct error err = ERROR_INIT;
	AUTO_BUF out = BUF_INIT;

	cr_assert_eq(manifest_new(2, n, &m, &err), 0);
	m->chunk_size = 4096;
	m->unit_chunks = 1;
	m->size = 65537;
	m->segments[0].length = (n - 1) * 4096;
	m->segments[0].columns = 2;
	m->segments[1].start = n * 4096;
	m->segments[1].length = 1;
	m->segments[1].columns = 1;
	m->crcs[16] = 17;
	cr_assert_eq(manifest_encode(m, &out, &err), 0, "%s", err.msg);
	cr_assert_eq(manifest_decode(out.data, out.len, &back, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(back->n_segments, 1);
	cr_expect_eq(back->n_chunks, 17);
	cr_expect_eq(back->crcs[16], 17);
	cr_expect_eq(back->segments[0].length, 17 * 4096);
	manifest_free(back);
	m->size = 0;
	out.len = 0;
	cr_assert_eq(manifest_encode(m, &out, &err), 0, "%s", err.msg);
	cr_assert_eq(manifest_decode(out.data, out.len, &back, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(back->n_segments + back->n_chunks, 0);
	manifest_free(back);
	manifest_free(m);
}
