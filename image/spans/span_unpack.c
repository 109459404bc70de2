// SPDX-License-Identifier: Apache-2.0
/* Unpacks the stored bytes of a span. Pure; uses no memory beyond the two buffers. */
#include <errno.h>
#include <isa-l/igzip_lib.h>
#include <string.h>
#include <zstd.h>

#include "image/spans/gzip_header.h"
#include "image/spans/spans.h"

#define TRAILER_BYTES 8 /* checksum and size of a gzip member */

static int refuse_short(struct error *err)
{
	return error_set(err, EBADMSG,
			 "damaged: a span unpacks to less than it should");
}

/* Begin the next gzip member in the input, behind the trailer of the last one. */
static int begin_member(struct inflate_state *s, struct error *err)
{
	struct gzip_header header = { .n = 0 };
	/* Whole bytes that igzip has read ahead are given back. */
	size_t ahead =
		s->read_in_length > 0 ? (size_t)s->read_in_length / 8 : 0;
	const uint8_t *in = s->next_in - ahead;
	size_t left = s->avail_in + ahead;
	bool done = false;
	int rc;

	if (left < TRAILER_BYTES)
		return refuse_short(err);
	in += TRAILER_BYTES;
	left -= TRAILER_BYTES;
	rc = gzip_header_read(&header, &in, &left, &done, err);
	if (rc == 0 && !done)
		rc = refuse_short(err);
	if (rc < 0)
		return rc;
	isal_inflate_reset(s);
	s->next_in = (uint8_t *)(uintptr_t)in;
	s->avail_in = (uint32_t)left;
	return 0;
}

static int inflate_all(struct inflate_state *s, struct error *err)
{
	while (s->avail_out) {
		int rc = isal_inflate(s);

		if (rc)
			return error_set(err, EBADMSG,
					 "damaged gzip stream (%d)", rc);
		if (s->avail_out == 0)
			break;
		if (s->block_state != ISAL_BLOCK_FINISH)
			return refuse_short(err);
		rc = begin_member(s, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int unpack_deflate(const struct span *span, const uint8_t *window,
			  const uint8_t *in, size_t in_len, uint8_t *out,
			  size_t out_len, struct error *err)
{
	/* Passed before a span that keeps no window, since its stream may still refer to
	 * these bytes. */
	static const uint8_t zeros[SPAN_WINDOW_BYTES];
	AUTO_FREE struct inflate_state *s = malloc(sizeof(*s));

	if (!s)
		return error_nomem(err);
	if (!window)
		window = zeros;
	isal_inflate_init(s);
	s->crc_flag = ISAL_DEFLATE;
	if (span->bits) {
		if (in_len == 0)
			return refuse_short(err);
		s->read_in = *in >> (8 - span->bits);
		s->read_in_length = span->bits;
		in++;
		in_len--;
	}
	if (isal_inflate_set_dict(s, (uint8_t *)(uintptr_t)window,
				  SPAN_WINDOW_BYTES) != 0)
		return error_set(err, EIO, "igzip takes no window");
	s->next_in = (uint8_t *)(uintptr_t)in;
	s->avail_in = (uint32_t)in_len;
	s->next_out = out;
	s->avail_out = (uint32_t)out_len;
	return inflate_all(s, err);
}

int span_unpack(const struct span *span, const uint8_t *window, const void *in,
		size_t in_len, void *out, size_t out_len, struct error *err)
{
	size_t n;

	switch (span->kind) {
	case SPAN_DEFLATE:
		return unpack_deflate(span, window, in, in_len, out, out_len,
				      err);
	case SPAN_ZSTD:
		n = ZSTD_decompress(out, out_len, in, in_len);
		if (ZSTD_isError(n))
			return error_set(err, EBADMSG,
					 "damaged zstd stream: %s",
					 ZSTD_getErrorName(n));
		return n == out_len ? 0 : refuse_short(err);
	case SPAN_PLAIN:
		if (in_len != out_len)
			return refuse_short(err);
		memcpy(out, in, in_len);
		return 0;
	case SPAN_END:
		break;
	}
	return error_set(err, EINVAL, "it is no span");
}
