// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/convert/zstd_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <zstd.h>

#include "common/bytes.h"
#include "common/memory_gate.h"

#define HEAD_MAX 18 /* largest frame header in bytes, with the magic number */
#define HEAD_MIN 5  /* bytes that tell the header's length */

/* Magic numbers of zstd 0.1, and of 0.2 to 0.7. */
#define OLDEST_MAGIC 0xfd2fb51e
#define OLD_MAGIC_MIN 0xfd2fb522
#define OLD_MAGIC_MAX 0xfd2fb527

struct zstd_stream {
	struct memory_claim *claim; /* borrowed; NULL: none */
	ZSTD_DStream *stream;
	/* the header of a frame is decoded, its end is not */
	bool inside;
	uint8_t head[HEAD_MAX]; /* header of the frame that begins */
	size_t n_head;
};

static bool open_stream(struct zstd_stream *z)
{
	z->stream = ZSTD_createDStream();
	return z->stream &&
	       !ZSTD_isError(ZSTD_DCtx_setParameter(z->stream,
						    ZSTD_d_windowLogMax,
						    ZSTD_WINDOW_LOG_MAX));
}

/* Free the decoder, with the window that it keeps after a frame. */
static void close_stream(struct zstd_stream *z)
{
	ZSTD_freeDStream(z->stream);
	z->stream = NULL;
	if (z->claim)
		memory_claim_give(z->claim);
}

struct zstd_stream *zstd_stream_new(struct memory_claim *claim)
{
	struct zstd_stream *z = calloc(1, sizeof(*z));

	if (!z)
		return NULL;
	z->claim = claim;
	if (!open_stream(z)) {
		zstd_stream_free(z);
		return NULL;
	}
	return z;
}

void zstd_stream_free(struct zstd_stream *z)
{
	if (!z)
		return;
	close_stream(z);
	free(z);
}

/* Lengths of the frame header's parts after the magic number: RFC 8878, 3.1.1.1. */
static size_t content_size_bytes(uint8_t descriptor)
{
	static const size_t bytes[] = { 0, 2, 4, 8 };
	bool single = descriptor & 0x20;

	return descriptor >> 6 == 0 && single ? 1 : bytes[descriptor >> 6];
}

static size_t dictionary_bytes(uint8_t descriptor)
{
	static const size_t bytes[] = { 0, 1, 2, 4 };

	return bytes[descriptor & 3];
}

static bool is_frame(const uint8_t *head)
{
	return get_le32(head) == ZSTD_MAGICNUMBER;
}

/*
 * Accept current and skippable frames only.  libzstd may also decode formats before 0.8, but
 * their windows are not limited or counted here.
 */
static int check_magic(const struct zstd_stream *z, struct error *err)
{
	uint32_t m = get_le32(z->head);

	if (is_frame(z->head) ||
	    (m & ZSTD_MAGIC_SKIPPABLE_MASK) == ZSTD_MAGIC_SKIPPABLE_START)
		return 0;
	if (m == OLDEST_MAGIC || (m >= OLD_MAGIC_MIN && m <= OLD_MAGIC_MAX))
		return error_set(err, ENOTSUP,
				 "a zstd format of before 0.8: compress it "
				 "with a zstd of today");
	return error_set(err, EBADMSG,
			 "damaged zstd stream: what follows a frame is none");
}

/* Length of the frame's header; the shortest possible while too few bytes are known.  A
 * skippable frame has no further header. */
static size_t head_bytes(const struct zstd_stream *z)
{
	uint8_t descriptor = z->head[4];

	if (z->n_head < HEAD_MIN || !is_frame(z->head))
		return HEAD_MIN;
	return HEAD_MIN + !(descriptor & 0x20) + dictionary_bytes(descriptor) +
	       content_size_bytes(descriptor);
}

static uint64_t window_bytes(const uint8_t *head)
{
	uint8_t descriptor = head[4];
	size_t n = content_size_bytes(descriptor);
	const uint8_t *p = head + HEAD_MIN + dictionary_bytes(descriptor);
	uint64_t size = 0, base;

	if (!(descriptor & 0x20)) {
		base = UINT64_C(1) << (10 + (head[5] >> 3));
		return base + base / 8 * (head[5] & 7);
	}
	/* A single-segment frame has no window of its own: the window is the whole content. */
	for (size_t i = 0; i < n; i++)
		size |= (uint64_t)p[i] << 8 * i;
	return n == 2 ? size + 256 : size;
}

static int check_window(const struct zstd_stream *z, struct error *err)
{
	uint64_t window = is_frame(z->head) ? window_bytes(z->head) : 0;

	if (window <= ZSTD_WINDOW_MAX)
		return 0;
	return error_set(err, ENOTSUP,
			 "its zstd window has %llu MiB; %llu MiB are the most: "
			 "compress it with a smaller one (zstd --long=%d)",
			 (unsigned long long)(window >> 20),
			 (unsigned long long)ZSTD_WINDOW_MAX >> 20,
			 ZSTD_WINDOW_LOG_MAX);
}

/* Take memory for the window of the frame that begins.  An earlier frame's window is freed
 * first, so that a waiting thread holds none. */
static int take_window(struct zstd_stream *z, struct error *err)
{
	uint64_t window = is_frame(z->head) ? window_bytes(z->head) : 0;
	int rc;

	if (!z->claim || window <= ZSTD_WINDOW_SMALL ||
	    window <= z->claim->bytes)
		return 0;
	close_stream(z);
	if (!open_stream(z))
		return error_nomem(err);
	rc = memory_claim_take(z->claim, window, ZSTD_WINDOW_WAIT_NS, err);
	if (rc < 0)
		return error_wrap(err, rc, "its zstd window");
	return 0;
}

static int feed_stream(struct zstd_stream *z, const uint8_t **in,
		       size_t *in_len, uint8_t *out, size_t cap, size_t *ret_n,
		       struct error *err)
{
	ZSTD_inBuffer src = { .src = *in, .size = *in_len };
	ZSTD_outBuffer dst = { .dst = out, .size = cap };
	size_t rc = ZSTD_decompressStream(z->stream, &dst, &src);

	if (ZSTD_isError(rc))
		return error_set(err, EBADMSG, "damaged zstd stream: %s",
				 ZSTD_getErrorName(rc));
	*in += src.pos;
	*in_len -= src.pos;
	*ret_n = dst.pos;
	z->inside = rc != 0;
	return 0;
}

/* Collect the header of the next frame and begin the frame. */
static int begin_frame(struct zstd_stream *z, const uint8_t **in,
		       size_t *in_len, uint8_t *out, size_t cap,
		       struct error *err)
{
	const uint8_t *head = z->head;
	size_t n;
	int rc;

	while (*in_len && z->n_head < head_bytes(z)) {
		z->head[z->n_head++] = *(*in)++;
		(*in_len)--;
	}
	if (z->n_head < head_bytes(z))
		return 0;
	rc = check_magic(z, err);
	if (rc == 0)
		rc = check_window(z, err);
	if (rc == 0)
		rc = take_window(z, err);
	/* A header produces no output. */
	while (rc == 0 && z->n_head)
		rc = feed_stream(z, &head, &z->n_head, out, cap, &n, err);
	return rc;
}

int zstd_stream_run(struct zstd_stream *z, const uint8_t **in, size_t *in_len,
		    uint8_t *out, size_t cap, size_t *ret_n, bool *ret_inside,
		    struct error *err)
{
	int rc = 0;

	*ret_n = 0;
	if (!z->inside && *in_len)
		rc = begin_frame(z, in, in_len, out, cap, err);
	if (rc == 0 && z->inside)
		rc = feed_stream(z, in, in_len, out, cap, ret_n, err);
	*ret_inside = z->inside || z->n_head;
	return rc;
}
