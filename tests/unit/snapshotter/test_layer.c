// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/convert/layer.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "common/buf.h"
#include "common/memory_gate.h"
#include "common/pace.h"
#include "snapshotter/convert/decode.h"

TestSuite(decode, .timeout = 120);
TestSuite(layer, .timeout = 120);

static struct error err;

/* ----------------------------------------------------------------- samples --- */

static uint8_t *sample(size_t len)
{
	uint8_t *p = malloc(len);
	uint32_t x = 1;

	for (size_t i = 0; i < len; i++) {
		x = x * 1664525 + 1013904223;
		p[i] = i % 1000 < 500 ? (uint8_t)(x >> 24) : 'a';
	}
	return p;
}

static void add_gzip(struct buf *out, const void *data, size_t len)
{
	z_stream z = { .next_in = (uint8_t *)(uintptr_t)data,
		       .avail_in = (uInt)len };
	size_t cap = compressBound(len) + 64;
	uint8_t *p = malloc(cap);

	cr_assert_eq(deflateInit2(&z, 6, Z_DEFLATED, 31, 8, 0), Z_OK);
	z.next_out = p;
	z.avail_out = (uInt)cap;
	cr_assert_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
	cr_assert_eq(buf_append(out, p, z.total_out), 0);
	deflateEnd(&z);
	free(p);
}

static void add_zstd(struct buf *out, const void *data, size_t len)
{
	size_t cap = ZSTD_compressBound(len);
	uint8_t *p = malloc(cap);
	size_t n = ZSTD_compress(p, cap, data, len, 3);

	cr_assert(!ZSTD_isError(n));
	cr_assert_eq(buf_append(out, p, n), 0);
	free(p);
}

/* ------------------------------------------------------------------ decode --- */

/* Decode everything in steps of `in_step` bytes, with `out_step` bytes of output room. */
static int decode(const struct buf *stored, size_t in_step, size_t out_step,
		  struct buf *out)
{
	AUTO(decoder) d = decoder_new(NULL, NULL);
	uint8_t *room = malloc(out_step);
	int rc = 0;

	cr_assert(d && room);
	for (size_t at = 0; rc == 0 && at < stored->len; at += in_step) {
		const uint8_t *in = (const uint8_t *)stored->data + at;
		size_t left =
			stored->len - at < in_step ? stored->len - at : in_step;
		size_t n = out_step;

		while (rc == 0 && (left || n == out_step)) {
			rc = decoder_run(d, &in, &left, room, out_step, &n,
					 &err);
			if (rc == 0)
				cr_assert_eq(buf_append(out, room, n), 0);
		}
	}
	free(room);
	return rc < 0 ? rc : decoder_finish(d, &err);
}

static void expect_decoded(const struct buf *stored, const void *want,
			   size_t len)
{
	static const size_t steps[][2] = {
		{ 1, 1 },
		{ 1, 4096 },
		{ 7, 13 },
		{ 65536, 1000 },
		{ SIZE_MAX / 2, 1 << 20 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		AUTO_BUF out = BUF_INIT;

		cr_assert_eq(decode(stored, steps[i][0], steps[i][1], &out), 0,
			     "step %zu: %s", i, err.msg);
		cr_expect_eq(out.len, len);
		cr_expect(out.len == len && memcmp(out.data, want, len) == 0);
	}
}

Test(decode, gzip_comes_out_whole_whatever_the_steps)
{
	uint8_t *data = sample(30000);
	AUTO_BUF stored = BUF_INIT;

	add_gzip(&stored, data, 30000);
	expect_decoded(&stored, data, 30000);
	free(data);
}

Test(decode, gzip_members_and_zstd_frames_follow_each_other)
{
	uint8_t *data = sample(30000);
	AUTO_BUF gzip = BUF_INIT;
	AUTO_BUF zstd = BUF_INIT;

	for (size_t at = 0; at < 30000; at += 10000) {
		add_gzip(&gzip, data + at, 10000);
		add_zstd(&zstd, data + at, 10000);
	}
	expect_decoded(&gzip, data, 30000);
	expect_decoded(&zstd, data, 30000);
	free(data);
}

Test(decode, what_is_not_compressed_passes_as_it_is)
{
	uint8_t *data = sample(30000);
	AUTO_BUF stored = BUF_INIT;
	AUTO_BUF out = BUF_INIT;

	cr_assert_eq(buf_append(&stored, data, 30000), 0);
	expect_decoded(&stored, data, 30000);
	buf_reset(&stored);
	cr_expect_eq(decode(&stored, 1, 1, &out), 0, "nothing is nothing");
	free(data);
}

Test(decode, every_truncation_is_noticed)
{
	uint8_t *data = sample(3000);

	for (int kind = 0; kind < 2; kind++) {
		AUTO_BUF stored = BUF_INIT;
		size_t whole;

		(kind ? add_zstd : add_gzip)(&stored, data, 3000);
		whole = stored.len;
		for (size_t len = 1; len < whole; len++) {
			AUTO_BUF out = BUF_INIT;

			stored.len = len;
			/* Two bytes of the magic number are not enough for gzip. */
			cr_assert_eq(decode(&stored, 1000, 4096, &out),
				     -EBADMSG, "%d: %zu of %zu", kind, len,
				     whole);
		}
	}
	free(data);
}

Test(decode, garbage_behind_the_end_is_refused)
{
	uint8_t *data = sample(3000);

	for (int kind = 0; kind < 2; kind++) {
		AUTO_BUF stored = BUF_INIT;
		AUTO_BUF out = BUF_INIT;

		(kind ? add_zstd : add_gzip)(&stored, data, 3000);
		cr_assert_eq(buf_puts(&stored, "garbage!"), 0);
		cr_expect_eq(decode(&stored, 100, 4096, &out), -EBADMSG);
	}
	free(data);
}

Test(decode, a_wrong_checksum_is_noticed)
{
	uint8_t *data = sample(3000);
	AUTO_BUF stored = BUF_INIT;
	AUTO_BUF out = BUF_INIT;

	add_gzip(&stored, data, 3000);
	stored.data[stored.len - 6] ^= 1;
	cr_expect_eq(decode(&stored, 100, 4096, &out), -EBADMSG);
	cr_expect(strstr(err.msg, "checksum"));
	free(data);
}

/* Append a gzip member whose header has the optional parts in `flags`. */
static void add_member(struct buf *out, const void *data, size_t len,
		       uint8_t flags)
{
	uint8_t head[10] = { 0x1f, 0x8b, 8, flags, 1, 2, 3, 4, 0, 255 };
	size_t at = out->len;
	AUTO_BUF whole = BUF_INIT;

	add_gzip(&whole, data, len);
	cr_assert_eq(buf_append(out, head, sizeof(head)), 0);
	if (flags & 4)
		cr_assert_eq(buf_append(out, "\7\0ex\3\0abc", 9), 0);
	if (flags & 8)
		cr_assert_eq(buf_append(out, "name", 5), 0);
	if (flags & 16)
		cr_assert_eq(buf_append(out, "comment", 8), 0);
	if (flags & 2) {
		uint32_t sum = (uint32_t)crc32(0, (uint8_t *)out->data + at,
					       (uInt)(out->len - at));

		cr_assert_eq(buf_append(out, &(uint8_t){ sum & 0xff }, 1), 0);
		cr_assert_eq(buf_append(out, &(uint8_t){ sum >> 8 & 0xff }, 1),
			     0);
	}
	/* Skip zlib's own header of ten bytes. */
	cr_assert_eq(buf_append(out, whole.data + 10, whole.len - 10), 0);
}

Test(decode, every_header_that_gzip_knows_is_taken)
{
	uint8_t *data = sample(3000);
	AUTO_BUF members = BUF_INIT;

	for (uint8_t flags = 0; flags < 32; flags++) {
		AUTO_BUF stored = BUF_INIT;

		add_member(&stored, data, 3000, flags);
		expect_decoded(&stored, data, 3000);
		add_member(&members, data + flags * 90, 90, flags);
	}
	expect_decoded(&members, data, 32 * 90);
	free(data);
}

Test(decode, an_empty_extra_field_is_taken)
{
	static const uint8_t head[] = {
		0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 3, 0, 0
	};
	uint8_t *data = sample(3000);
	AUTO_BUF stored = BUF_INIT;
	AUTO_BUF whole = BUF_INIT;

	add_gzip(&whole, data, 3000);
	cr_assert_eq(buf_append(&stored, head, sizeof(head)), 0);
	cr_assert_eq(buf_append(&stored, whole.data + 10, whole.len - 10), 0);
	expect_decoded(&stored, data, 3000);
	free(data);
}

Test(decode, a_damaged_gzip_header_is_refused)
{
	static const struct {
		size_t at;
		uint8_t flip;
		const char *why;
	} cases[] = {
		{ 2, 1, "compression method 9" },
		{ 3, 0x20, "flags 0x3e" },
		{ 3, 0x80, "flags 0x9e" },
		{ 11, 1, "gzip" },               /* length of the extra field */
		{ 22, 1, "checksum of a gzip" }, /* a byte of the name */
		{ 33, 1, "checksum of a gzip" }, /* a byte of the checksum */
	};
	uint8_t *data = sample(3000);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_BUF stored = BUF_INIT;
		AUTO_BUF out = BUF_INIT;

		add_member(&stored, data, 3000, 2 + 4 + 8 + 16);
		stored.data[cases[i].at] ^= (char)cases[i].flip;
		cr_expect_eq(decode(&stored, 100, 4096, &out), -EBADMSG, "%zu",
			     i);
		cr_expect(strstr(err.msg, cases[i].why), "%zu: %s", i, err.msg);
	}
	free(data);
}

/* Append a frame that asks for a window of 2^`log` bytes and has one raw block. */
static void add_window(struct buf *out, int log, bool single, const char *text)
{
	size_t len = strlen(text);
	const uint8_t block[3] = { (uint8_t)(1 | len << 3), (uint8_t)(len >> 5),
				   0 };
	uint8_t head[13] = { 0x28, 0xb5, 0x2f, 0xfd };
	size_t n = 6;

	if (single) { /* the window is the content's size, 8 bytes */
		head[4] = 0xe0;
		for (size_t i = 0; i < 8; i++)
			head[5 + i] = (uint8_t)(UINT64_C(1) << log >> 8 * i);
		n = 13;
	} else {
		head[5] = (uint8_t)((log - 10) << 3);
	}
	cr_assert_eq(buf_append(out, head, n), 0);
	cr_assert_eq(buf_append(out, block, 3), 0);
	cr_assert_eq(buf_append(out, text, len), 0);
}

Test(decode, zstd_windows_are_taken_up_to_the_limit)
{
	for (int log = 27; log <= 29; log++) {
		AUTO_BUF stored = BUF_INIT;
		AUTO_BUF out = BUF_INIT;

		add_window(&stored, log, false, "in a large window");
		cr_assert_eq(decode(&stored, 1, 4096, &out), 0, "%s", err.msg);
		cr_expect_eq(out.len, 17);
	}
}

Test(decode, large_zstd_windows_are_counted_until_they_are_freed)
{
	const uint64_t window = UINT64_C(1) << 29;
	struct decoder *d;
	struct memory_gate g;
	struct memory_claim c = { .gate = &g, .name = "a" };
	struct memory_claim other = { .gate = &g, .name = "b" };
	AUTO_BUF stored = BUF_INIT;
	const uint8_t *in;
	uint8_t out[64];
	size_t left, n;

	memory_gate_init(&g, window, window);
	d = decoder_new(&c, NULL);
	add_zstd(&stored, "a small frame before", 20);
	add_window(&stored, 29, false, "first");
	add_window(&stored, 29, false, "second");
	in = (const uint8_t *)stored.data;
	left = stored.len;
	for (n = 1; left;)
		cr_assert_eq(decoder_run(d, &in, &left, out, sizeof(out), &n,
					 &err),
			     0, "%s", err.msg);
	cr_expect_eq(g.used, window);
	cr_expect_eq(memory_claim_take(&other, 1, 0, &err), -EBUSY);
	decoder_free(d);
	cr_expect_eq(g.used, 0);
	memory_gate_fini(&g);
}

Test(decode, a_larger_zstd_window_is_named_with_the_limit)
{
	for (int k = 0; k < 4; k++) {
		AUTO_BUF stored = BUF_INIT;
		AUTO_BUF out = BUF_INIT;

		add_zstd(&stored, "a frame before", 14);
		add_window(&stored, 30, k & 1, "text");
		cr_expect_eq(decode(&stored, k & 2 ? 1 : 1000, 4096, &out),
			     -ENOTSUP);
		cr_expect(strstr(err.msg, "window has 1024 MiB; 512 MiB are"),
			  "%s", err.msg);
	}
}

Test(decode, skippable_zstd_frames_are_passed_over)
{
	static const uint8_t skip[] = { 0x50, 0x2a, 0x4d, 0x18, 3,  0,
					0,    0,    'a',  'b',  'c' };
	static const uint8_t empty[] = { 0x5f, 0x2a, 0x4d, 0x18, 0, 0, 0, 0 };
	AUTO_BUF stored = BUF_INIT;

	cr_assert_eq(buf_append(&stored, skip, sizeof(skip)), 0);
	add_zstd(&stored, "text", 4);
	cr_assert_eq(buf_append(&stored, empty, sizeof(empty)), 0);
	add_zstd(&stored, "", 0);
	add_zstd(&stored, " and more", 9);
	cr_assert_eq(buf_append(&stored, skip, sizeof(skip)), 0);
	expect_decoded(&stored, "text and more", 13);
}

/* libzstd can decode formats before 0.8, but their windows are not counted here. */
Test(decode, zstd_formats_of_long_ago_are_refused)
{
	/* Formats 0.6 and 0.7: a frame with a window of 128 MiB. */
	static const uint8_t old[][8] = {
		{ 0x26, 0xb5, 0x2f, 0xfd, 0x0f, 0, 0, 0 },
		{ 0x27, 0xb5, 0x2f, 0xfd, 0x00, 0x88, 0, 0 },
	};

	for (size_t i = 0; i < 2 * ARRAY_SIZE(old); i++) {
		AUTO_BUF stored = BUF_INIT;
		AUTO_BUF out = BUF_INIT;

		add_zstd(&stored, "a frame before", 14);
		cr_assert_eq(buf_append(&stored, old[i / 2], 8), 0);
		cr_expect_eq(decode(&stored, i & 1 ? 1 : 1000, 4096, &out),
			     -ENOTSUP);
		cr_expect(strstr(err.msg, "zstd format of before 0.8"), "%s",
			  err.msg);
	}
}

/* ------------------------------------------------------------------- layer --- */

/* A source that sends all its bytes, however many are asked for, and can fail on the way. */
struct lax_source {
	struct source base;
	const struct buf *bytes;
	size_t fail_at; /* 0: never */
};

static int lax_read(struct source *s, const struct source_req *req,
		    struct source_sink *sink, struct error *e)
{
	const struct lax_source *m = container_of(s, struct lax_source, base);
	size_t at = (size_t)req->off, end = m->bytes->len;

	while (at < end) {
		size_t n = end - at < 5000 ? end - at : 5000;
		int rc;

		if (m->fail_at && at >= m->fail_at)
			return error_set(e, EIO, "the source broke");
		rc = sink->put(sink, at, m->bytes->data + at, n, e);
		if (rc < 0)
			return rc;
		at += n;
	}
	return 0;
}

static void lax_free(struct source *s)
{
}

static const struct source_ops lax_ops = {
	.name = "lax",
	.read = lax_read,
	.free = lax_free,
};

static int read_input(struct lax_source *m, struct layer_input in,
		      struct buf *out, struct digest *diff_id)
{
	AUTO(layer) l = NULL;
	const void *data;
	size_t n = 1;
	int rc;

	m->base.ops = &lax_ops;
	in.source = &m->base;
	rc = layer_open(&in, &l, &err);
	while (rc == 0 && n) {
		rc = layer_read(l, &data, &n, &err);
		if (rc == 0 && n)
			cr_assert_eq(buf_append(out, data, n), 0);
	}
	if (rc == 0) {
		*diff_id = *layer_diff_id(l);
		cr_expect_eq(layer_plain_bytes(l), out->len);
	}
	return rc;
}

static int read_layer(struct lax_source *m, uint64_t size,
		      const struct digest *d, struct buf *out,
		      struct digest *diff_id)
{
	const struct layer_input in = {
		.size = size, .digest = *d, .want_diff_id = true, .copy_fd = -1
	};

	return read_input(m, in, out, diff_id);
}

Test(layer, gives_the_plain_bytes_and_their_digest)
{
	size_t len = 9u << 20; /* more than fits into the ring */
	uint8_t *data = sample(len);
	AUTO_BUF stored = BUF_INIT;
	AUTO_BUF out = BUF_INIT;
	struct lax_source m = { .bytes = &stored };
	struct digest d, diff_id, want;

	add_gzip(&stored, data, len);
	cr_assert_eq(digest_of(stored.data, stored.len, &d), 0);
	cr_assert_eq(digest_of(data, len, &want), 0);
	cr_assert_eq(read_layer(&m, stored.len, &d, &out, &diff_id), 0, "%s",
		     err.msg);
	cr_expect_eq(out.len, len);
	cr_expect_eq(memcmp(out.data, data, len), 0);
	cr_expect(digest_equal(&diff_id, &want));
	free(data);
}

Test(layer, tells_lies_about_size_and_digest)
{
	uint8_t *data = sample(100000);
	AUTO_BUF stored = BUF_INIT;
	AUTO_BUF out = BUF_INIT;
	struct lax_source m = { .bytes = &stored };
	struct digest d, diff_id;

	add_gzip(&stored, data, 100000);
	cr_assert_eq(digest_of(stored.data, stored.len, &d), 0);
	cr_expect_eq(read_layer(&m, stored.len + 1, &d, &out, &diff_id),
		     -EBADMSG);
	cr_expect_eq(read_layer(&m, stored.len - 1, &d, &out, &diff_id),
		     -EBADMSG);
	d.b[0] ^= 1;
	cr_expect_eq(read_layer(&m, stored.len, &d, &out, &diff_id), -EBADMSG);
	cr_expect(strstr(err.msg, "sha256:"));
	free(data);
}

Test(layer,
     of_which_somebody_has_checked_the_digest_is_checked_for_its_size_alone)
{
	uint8_t *data = sample(100000);
	AUTO_BUF stored = BUF_INIT;
	AUTO_BUF out = BUF_INIT;
	struct lax_source m = { .bytes = &stored };
	struct layer_input in = { .is_checked = true,
				  .want_diff_id = true,
				  .copy_fd = -1 };
	struct digest diff_id, want;

	add_gzip(&stored, data, 100000);
	cr_assert_eq(digest_of(data, 100000, &want), 0);
	in.size = stored.len;
	cr_assert_eq(read_input(&m, in, &out, &diff_id), 0, "%s", err.msg);
	cr_expect(digest_equal(&diff_id, &want));
	in.size++;
	cr_expect_eq(read_input(&m, in, &out, &diff_id), -EBADMSG);
	free(data);
}

Test(layer, passes_the_failure_of_its_source_on)
{
	uint8_t *data = sample(400000);
	AUTO_BUF stored = BUF_INIT;
	AUTO_BUF out = BUF_INIT;
	struct lax_source m = { .bytes = &stored, .fail_at = 20000 };
	struct digest d, diff_id;

	add_gzip(&stored, data, 400000);
	cr_assert_eq(digest_of(stored.data, stored.len, &d), 0);
	cr_expect_eq(read_layer(&m, stored.len, &d, &out, &diff_id), -EIO);
	cr_expect_str_eq(err.msg, "the source broke");
	free(data);
}

Test(layer, can_be_closed_in_the_middle)
{
	size_t len = 20u << 20;
	uint8_t *data = sample(len);
	AUTO_BUF stored = BUF_INIT;
	struct lax_source m = { .base.ops = &lax_ops, .bytes = &stored };
	struct layer_input in = { .source = &m.base, .copy_fd = -1 };
	struct layer *l;
	const void *p;
	size_t n;

	add_gzip(&stored, data, len);
	in.size = stored.len;
	cr_assert_eq(layer_open(&in, &l, &err), 0);
	cr_assert_eq(layer_read(l, &p, &n, &err), 0);
	cr_expect_gt(n, 0);
	layer_close(l);
	cr_assert_eq(layer_open(&in, &l, &err), 0);
	layer_close(l);
	free(data);
}

static bool is_wanted;

static enum pace_level layer_test_level(struct pace *p)
{
	(void)p;
	return is_wanted ? PACE_GO : PACE_STOP;
}

Test(layer, ends_when_nobody_wants_it_any_more_although_all_of_it_came)
{
	size_t len = 4u << 20, n = 0;
	AUTO_FREE uint8_t *data = sample(len);
	AUTO_BUF stored = BUF_INIT;
	struct lax_source m = { .base.ops = &lax_ops, .bytes = &stored };
	struct pace pace = { .level = layer_test_level };
	struct layer_input in = { .source = &m.base,
				  .copy_fd = -1,
				  .pace = &pace };
	AUTO(layer) l = NULL;
	const void *piece;

	is_wanted = true;
	add_gzip(&stored, data, len);
	in.size = stored.len;
	cr_assert_eq(layer_open(&in, &l, &err), 0);
	cr_assert_eq(layer_read(l, &piece, &n, &err), 0);
	cr_assert_gt(n, 0);
	is_wanted = false;
	cr_expect_eq(layer_read(l, &piece, &n, &err), -ECANCELED);
}

static enum pace_level stop(struct pace *p)
{
	return PACE_STOP;
}

Test(layer, waits_for_its_window_only_as_long_as_it_is_wanted)
{
	const uint64_t window = UINT64_C(1) << 29;
	struct pace pace = { .level = stop };
	struct memory_gate g;
	struct memory_claim other = { .gate = &g, .name = "b" };
	struct memory_claim c = { .gate = &g, .name = "a", .pace = &pace };
	AUTO_BUF stored = BUF_INIT;
	struct lax_source m = { .base.ops = &lax_ops, .bytes = &stored };
	struct layer_input in = { .source = &m.base,
				  .copy_fd = -1,
				  .windows = &c };
	struct layer *l;
	const void *p;
	size_t n;

	memory_gate_init(&g, window, window);
	cr_assert_eq(memory_claim_take(&other, window, 0, &err), 0);
	add_window(&stored, 29, false, "text");
	in.size = stored.len;
	cr_assert_eq(layer_open(&in, &l, &err), 0);
	cr_expect_eq(layer_read(l, &p, &n, &err), -ECANCELED);
	layer_close(l);
	memory_claim_give(&other);
	cr_expect_eq(g.used, 0);
	memory_gate_fini(&g);
}
