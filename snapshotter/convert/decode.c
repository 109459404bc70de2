// SPDX-License-Identifier: Apache-2.0
/* Decodes gzip by igzip, which is about three times as fast as zlib.  This decides the speed of
 * a conversion, since every layer is decoded twice. */
#include "snapshotter/convert/decode.h"

#include <errno.h>
#include <isa-l/igzip_lib.h>
#include <stdbool.h>
#include <string.h>
#include <zstd.h>

#include "common/bytes.h"
#include "image/spans/gzip_header.h"
#include "image/spans/spans.h"
#include "snapshotter/convert/zstd_stream.h"

#define MAGIC_MAX 4
/* bytes of a span in a layer that is not compressed */
#define PLAIN_SPAN (256 * KIB)

enum decode_kind { DECODE_UNKNOWN, DECODE_PLAIN, DECODE_GZIP, DECODE_ZSTD };

struct decoder {
	enum decode_kind kind;
	/* the stream's first bytes, until the kind is known */
	uint8_t magic[MAGIC_MAX];
	size_t n_magic, magic_used;
	bool inside; /* a gzip member or zstd frame has begun and not ended */
	struct gzip_header header;
	bool in_header; /* the header of a gzip member is not complete */
	struct inflate_state *gzip;
	struct zstd_stream *zstd;
	struct memory_claim *claim;
	/* Receives the points where decoding can begin, or NULL; `indexed` then replaces `gzip`. */
	struct span_set *spans;
	struct span_gzip *indexed;
	uint64_t stored, plain; /* bytes decoded, and bytes produced */
};

struct decoder *decoder_new(struct memory_claim *claim, struct span_set *spans)
{
	struct decoder *d = calloc(1, sizeof(*d));

	if (d) {
		d->claim = claim;
		d->spans = spans;
	}
	return d;
}

void decoder_free(struct decoder *d)
{
	if (!d)
		return;
	free(d->gzip);
	span_gzip_free(d->indexed);
	zstd_stream_free(d->zstd);
	free(d);
}

static int open_gzip(struct decoder *d, struct error *err)
{
	d->kind = DECODE_GZIP;
	if (d->spans) {
		d->indexed = span_gzip_new(d->spans);
		return d->indexed ? 0 : error_nomem(err);
	}
	d->gzip = calloc(1, sizeof(*d->gzip));
	if (!d->gzip)
		return error_nomem(err);
	isal_inflate_init(d->gzip);
	d->gzip->crc_flag = ISAL_GZIP_NO_HDR_VER;
	return 0;
}

static int open_zstd(struct decoder *d, struct error *err)
{
	d->zstd = zstd_stream_new(d->claim);
	if (!d->zstd)
		return error_nomem(err);
	d->kind = DECODE_ZSTD;
	return 0;
}

static int detect_compression(struct decoder *d, struct error *err)
{
	uint32_t m = d->n_magic == MAGIC_MAX ? get_le32(d->magic) : 0;

	if (d->n_magic >= 2 && d->magic[0] == 0x1f && d->magic[1] == 0x8b)
		return open_gzip(d, err);
	if (m == ZSTD_MAGICNUMBER ||
	    (m & ZSTD_MAGIC_SKIPPABLE_MASK) == ZSTD_MAGIC_SKIPPABLE_START)
		return open_zstd(d, err);
	d->kind = DECODE_PLAIN;
	return 0;
}

static int run_gzip(struct decoder *d, const uint8_t **in, size_t *in_len,
		    uint8_t *out, size_t cap, size_t *ret_n, struct error *err)
{
	struct inflate_state *s = d->gzip;
	int rc;

	if (!d->inside) {
		d->inside = d->in_header = true;
		d->header = (struct gzip_header){ .n = 0 };
	}
	if (d->in_header) {
		bool done = false;

		rc = gzip_header_read(&d->header, in, in_len, &done, err);
		if (rc < 0 || !done)
			return rc;
		d->in_header = false;
	}
	s->next_in = (uint8_t *)(uintptr_t)*in;
	s->avail_in = (uint32_t)*in_len;
	s->next_out = out;
	s->avail_out = (uint32_t)cap;
	rc = isal_inflate(s);
	if (rc == ISAL_INCORRECT_CHECKSUM)
		return error_set(err, EBADMSG, "wrong gzip checksum");
	if (rc < 0 || rc == ISAL_NEED_DICT)
		return error_set(err, EBADMSG, "damaged gzip stream (%d)", rc);
	/* Only now: after an error igzip may also give back bytes of earlier calls. */
	*in += *in_len - s->avail_in;
	*in_len = s->avail_in;
	*ret_n = cap - s->avail_out;
	if (s->block_state == ISAL_BLOCK_FINISH) {
		d->inside = false;
		isal_inflate_reset(s);
	}
	return 0;
}

/* Note a point where decoding can begin in a stream that is not gzip: anywhere in plain bytes,
 * or between zstd frames.  Limits `cap` to the next such point. */
static int note_entry(struct decoder *d, size_t *cap, struct error *err)
{
	uint64_t most = PLAIN_SPAN - d->plain % PLAIN_SPAN;

	if (!d->spans || d->kind == DECODE_GZIP)
		return 0;
	if (d->kind == DECODE_ZSTD)
		return d->inside ? 0
				 : span_set_enter(d->spans, SPAN_ZSTD,
						  d->stored, d->plain, err);
	if (*cap > most)
		*cap = (size_t)most;
	return most == PLAIN_SPAN ? span_set_enter(d->spans, SPAN_PLAIN,
						   d->stored, d->plain, err)
				  : 0;
}

static int run_known(struct decoder *d, const uint8_t **in, size_t *in_len,
		     uint8_t *out, size_t cap, size_t *ret_n, struct error *err)
{
	size_t n = *in_len < cap ? *in_len : cap;

	if (d->indexed)
		return span_gzip_run(d->indexed, in, in_len, out, cap, ret_n,
				     &d->inside, err);
	if (d->kind == DECODE_GZIP)
		return run_gzip(d, in, in_len, out, cap, ret_n, err);
	if (d->kind == DECODE_ZSTD)
		return zstd_stream_run(d->zstd, in, in_len, out, cap, ret_n,
				       &d->inside, err);
	memcpy(out, *in, n);
	*in += n;
	*in_len -= n;
	*ret_n = n;
	return 0;
}

int decoder_run(struct decoder *d, const uint8_t **in, size_t *in_len,
		uint8_t *out, size_t cap, size_t *ret_n, struct error *err)
{
	size_t made = 0;
	int rc;

	while (d->kind == DECODE_UNKNOWN && *in_len) {
		d->magic[d->n_magic++] = *(*in)++;
		(*in_len)--;
		if (d->n_magic == MAGIC_MAX) {
			rc = detect_compression(d, err);
			if (rc < 0)
				return rc;
		}
	}
	while (d->kind != DECODE_UNKNOWN && made < cap) {
		bool first = d->magic_used < d->n_magic;
		const uint8_t *p = first ? d->magic + d->magic_used : *in;
		size_t n, left = first ? d->n_magic - d->magic_used : *in_len;
		size_t most = cap - made;
		const uint8_t *begin = p;

		if (left == 0 && !d->inside)
			break;
		/* The decoder may still have output when the input is used up. */
		n = 0;
		rc = note_entry(d, &most, err);
		if (rc == 0)
			rc = run_known(d, &p, &left, out + made, most, &n, err);
		if (rc < 0)
			return rc;
		if (d->spans && !d->indexed)
			span_set_count(d->spans, out + made, n);
		made += n;
		d->plain += n;
		d->stored += (uint64_t)(p - begin);
		if (first) {
			d->magic_used = (size_t)(p - d->magic);
		} else {
			bool idle = n == 0 && left == *in_len;

			*in = p;
			*in_len = left;
			if (idle)
				break;
		}
	}
	*ret_n = made;
	return 0;
}

int decoder_finish(struct decoder *d, struct error *err)
{
	if (d->kind == DECODE_UNKNOWN && d->n_magic)
		return error_set(err, EBADMSG,
				 "%zu bytes are neither a tar nor compressed",
				 d->n_magic);
	if (d->inside)
		return error_set(err, EBADMSG,
				 "its compressed stream is cut "
				 "short");
	return 0;
}
