// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/convert/layer.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "common/buf.h"
#include "snapshotter/convert/decode.h"

TestSuite(decode, .timeout = 60);
TestSuite(layer, .timeout = 60);

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

/* Decode all in steps of `in_step`, with `out_step` bytes of room. */
static int decode(const struct buf *stored, size_t in_step, size_t out_step,
		  struct buf *out)
{
	AUTO(decoder) d = decoder_new();
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
			/* Two bytes of magic are still no gzip. */
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

/* ------------------------------------------------------------------- layer --- */

/* A source of bytes in memory that can fail on the way. */
struct memory {
	struct source base;
	const struct buf *bytes;
	size_t fail_at; /* 0: never */
};

static int memory_read(struct source *s, const struct source_req *req,
		       struct source_sink *sink, struct error *e)
{
	const struct memory *m = container_of(s, struct memory, base);
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

static void memory_free(struct source *s)
{
}

static const struct source_ops memory_ops = {
	.name = "memory",
	.read = memory_read,
	.free = memory_free,
};

static int read_layer(struct memory *m, uint64_t size, const struct digest *d,
		      struct buf *out, struct digest *diff_id)
{
	struct layer_input in = { .source = &m->base,
				  .size = size,
				  .digest = *d,
				  .want_diff_id = true,
				  .copy_fd = -1 };
	AUTO(layer) l = NULL;
	const void *data;
	size_t n = 1;
	int rc;

	m->base.ops = &memory_ops;
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

Test(layer, gives_the_plain_bytes_and_their_digest)
{
	size_t len = 9u << 20; /* more than the ring holds */
	uint8_t *data = sample(len);
	AUTO_BUF stored = BUF_INIT;
	AUTO_BUF out = BUF_INIT;
	struct memory m = { .bytes = &stored };
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
	struct memory m = { .bytes = &stored };
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

Test(layer, passes_the_failure_of_its_source_on)
{
	uint8_t *data = sample(400000);
	AUTO_BUF stored = BUF_INIT;
	AUTO_BUF out = BUF_INIT;
	struct memory m = { .bytes = &stored, .fail_at = 20000 };
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
	struct memory m = { .base.ops = &memory_ops, .bytes = &stored };
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
