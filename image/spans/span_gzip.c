// SPDX-License-Identifier: Apache-2.0
/*
 * Finds where the decoding of gzip members can begin: zlib can stop between blocks of deflate,
 * which igzip cannot. A block may refer to the 32 KiB of output before it, the window, but
 * refers to little of that: only the bytes that are used are kept, the others are zeros.
 *
 * Which bytes are used is found by unpacking the first 32 KiB behind the place with three
 * artificial windows: in the first each byte is the low half of its own index, in the second the
 * high half, in the third the inverted low half. An output byte that differs between the first
 * and the third comes from the window, and the first and second together tell the index. Behind
 * 32 KiB of output, data can come from the window only through a copy in the output.
 */
#include <errno.h>
#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "common/buf.h"
#include "common/bytes.h"
#include "image/spans/gzip_header.h"
#include "image/spans/span_set.h"

#define WINDOW SPAN_WINDOW_BYTES
/* stored bytes behind a place that are searched for uses of its window */
#define INPUT_MAX (128 * KIB)
#define TRAILER 8 /* bytes: checksum, length */

enum member_part { MEMBER_NONE, MEMBER_HEADER, MEMBER_BLOCKS, MEMBER_TRAILER };

struct span_gzip {
	struct span_set *set;
	enum member_part part;
	struct gzip_header header;
	/* decodes the deflate blocks only, as zlib's checksum is slow */
	z_stream zlib;
	uint32_t crc;   /* of the member, so far */
	uint64_t begin; /* unpacked offset at which the member begins */
	uint8_t trailer[TRAILER];
	size_t n_trailer;
	uint64_t stored;   /* stored bytes of the layer that were used so far */
	uint64_t plain;    /* bytes unpacked so far */
	uint8_t last_byte; /* the last stored byte that was used */

	/* A place at which decoding can begin; its window is searched once enough input
	 * behind it was seen. */
	bool has_place;
	uint64_t place; /* its unpacked offset */
	uint8_t bits;
	struct buf input; /* stored bytes from the place on */
	uint8_t window[WINDOW];
	uint8_t sparse[WINDOW];
};

struct span_gzip *span_gzip_new(struct span_set *set)
{
	struct span_gzip *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->set = set;
	if (inflateInit2(&g->zlib, -15) != Z_OK) {
		free(g);
		return NULL;
	}
	return g;
}

void span_gzip_free(struct span_gzip *g)
{
	if (!g)
		return;
	(void)inflateEnd(&g->zlib);
	buf_fini(&g->input);
	free(g);
}

/* ----------------------------------------------------------------- windows --- */

/* Unpack up to WINDOW bytes behind the place, using `window`, and return how many came. zlib
 * has unpacked all of the input before, so a failure is a weakness of igzip, and the uses stay
 * unknown. */
static size_t unpack_behind(const struct span_gzip *g, uint8_t *window,
			    uint8_t *out)
{
	AUTO_FREE struct inflate_state *s = malloc(sizeof(*s));
	uint8_t *in = (uint8_t *)g->input.data;
	size_t n = g->input.len;

	if (!s)
		return 0;
	isal_inflate_init(s);
	s->crc_flag = ISAL_DEFLATE;
	if (g->bits) {
		s->read_in = *in >> (8 - g->bits);
		s->read_in_length = g->bits;
		in++;
		n--;
	}
	if (isal_inflate_set_dict(s, window, WINDOW) != 0)
		return 0;
	s->next_in = in;
	s->avail_in = (uint32_t)n;
	s->next_out = out;
	s->avail_out = WINDOW;
	return isal_inflate(s) ? 0 : WINDOW - s->avail_out;
}

/* Copy the window's used bytes to `sparse`. False: unknown which are used. */
static bool find_used(struct span_gzip *g)
{
	AUTO_FREE uint8_t *room = malloc((size_t)6 * WINDOW);
	uint64_t want = g->plain - g->place;
	uint8_t *low, *high, *inverted, *a, *b, *c;
	size_t n;

	/* igzip must unpack as much as zlib did, else uses in the rest are unknown. */
	want = want < WINDOW ? want : WINDOW;

	if (!room || want == 0)
		return false;
	low = room;
	high = low + WINDOW;
	inverted = high + WINDOW;
	a = inverted + WINDOW;
	b = a + WINDOW;
	c = b + WINDOW;
	for (size_t i = 0; i < WINDOW; i++) {
		low[i] = (uint8_t)i;
		high[i] = (uint8_t)(i >> 8);
		inverted[i] = (uint8_t)~i;
	}
	n = unpack_behind(g, low, a);
	if (n < want || unpack_behind(g, high, b) != n ||
	    unpack_behind(g, inverted, c) != n)
		return false;
	memset(g->sparse, 0, WINDOW);
	for (size_t i = 0; i < n; i++) {
		size_t at = ((size_t)b[i] << 8 | a[i]) % WINDOW;

		if (a[i] != c[i])
			g->sparse[at] = g->window[at];
	}
	return true;
}

static int finish_span(struct span_gzip *g, struct error *err)
{
	bool is_whole = g->input.len >= INPUT_MAX;

	g->has_place = false;
	/* The place may be too near the layer's end, or the search failed: then the stream
	 * might use any byte, so the whole window is kept. */
	if (is_whole || !find_used(g))
		memcpy(g->sparse, g->window, WINDOW);
	return span_set_keep_window(g->set, g->sparse, err);
}

/* Begin a new place. When it lies inside of a byte, that byte counts as used already. */
static int begin_place(struct span_gzip *g, uint8_t bits, struct error *err)
{
	const struct span span = { .kind = SPAN_DEFLATE,
				   .stored = g->stored - (bits ? 1 : 0),
				   .plain = g->plain,
				   .bits = bits };
	uInt n = 0;
	int rc = span_set_add(g->set, &span, err);

	if (rc < 0)
		return rc;
	g->place = g->plain;
	g->bits = bits;
	memset(g->window, 0, WINDOW);
	if (inflateGetDictionary(&g->zlib, g->window, &n) != Z_OK)
		return error_set(err, EIO, "zlib has no window");
	/* A short window belongs at the end of the buffer, next to the place. */
	memmove(g->window + WINDOW - n, g->window, n);
	memset(g->window, 0, WINDOW - n);
	buf_reset(&g->input);
	g->has_place = true;
	if (bits && buf_append(&g->input, &g->last_byte, 1) < 0)
		return error_nomem(err);
	return 0;
}

/* ------------------------------------------------------------------ members --- */

static int take_input(struct span_gzip *g, const uint8_t *in, size_t n,
		      struct error *err)
{
	size_t room = INPUT_MAX - g->input.len;

	g->stored += n;
	if (n)
		g->last_byte = in[n - 1];
	if (!g->has_place)
		return 0;
	if (buf_append(&g->input, in, n < room ? n : room) < 0)
		return error_nomem(err);
	return g->plain - g->place >= WINDOW || g->input.len == INPUT_MAX
		       ? finish_span(g, err)
		       : 0;
}

static int read_header(struct span_gzip *g, const uint8_t **in, size_t *in_len,
		       struct error *err)
{
	const uint8_t *begin = *in;
	bool done = false;
	int rc = gzip_header_read(&g->header, in, in_len, &done, err);

	g->stored += (uint64_t)(*in - begin);
	if (rc < 0 || !done)
		return rc;
	g->part = MEMBER_BLOCKS;
	g->crc = 0;
	g->begin = g->plain;
	return span_set_enter(g->set, SPAN_DEFLATE, g->stored, g->plain, err);
}

/* Handle the end of a member's last deflate block. */
static int end_blocks(struct span_gzip *g, struct error *err)
{
	int rc = g->has_place ? finish_span(g, err) : 0;

	g->part = MEMBER_TRAILER;
	g->n_trailer = 0;
	if (rc == 0 && inflateReset(&g->zlib) != Z_OK)
		rc = error_set(err, EIO, "zlib: it does not begin again");
	return rc;
}

static int read_blocks(struct span_gzip *g, const uint8_t **in, size_t *in_len,
		       uint8_t *out, size_t cap, size_t *ret_n,
		       struct error *err)
{
	z_stream *z = &g->zlib;
	uint64_t due = span_set_due(g->set, g->plain);
	/* Stopping at each block costs a copy of the window, so it is done only near a place
	 * that is due. Without stopping, zlib may pass a block's end unnoticed where the output
	 * ends: harmless far from such a place. */
	bool stops = due <= 1 && !g->has_place;
	int rc, status;

	if (!stops && due > 1 && cap > due - 1)
		cap = (size_t)due - 1;
	if (g->has_place && cap > WINDOW)
		cap = WINDOW;
	z->next_in = (Bytef *)(uintptr_t)*in;
	z->avail_in = (uInt)*in_len;
	z->next_out = out;
	z->avail_out = (uInt)cap;
	status = inflate(z, stops ? Z_BLOCK : Z_NO_FLUSH);
	if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
		return error_set(err, EBADMSG, "damaged gzip stream: %s",
				 z->msg ? z->msg : "zlib gives up");
	*ret_n = cap - z->avail_out;
	g->plain += *ret_n;
	g->crc = crc32_gzip_refl(g->crc, out, *ret_n);
	span_set_count(g->set, out, *ret_n);
	rc = take_input(g, *in, *in_len - z->avail_in, err);
	*in += *in_len - z->avail_in;
	*in_len = z->avail_in;
	if (rc == 0 && status == Z_STREAM_END)
		rc = end_blocks(g, err);
	/* zlib has stopped between two blocks: begin a place here. */
	else if (rc == 0 && stops && (z->data_type & 128) &&
		 !(z->data_type & 64) && span_set_due(g->set, g->plain) == 0)
		rc = begin_place(g, z->data_type & 7, err);
	return rc;
}

static int read_trailer(struct span_gzip *g, const uint8_t **in, size_t *in_len,
			struct error *err)
{
	size_t n = TRAILER - g->n_trailer;

	if (n > *in_len)
		n = *in_len;
	memcpy(g->trailer + g->n_trailer, *in, n);
	g->n_trailer += n;
	g->stored += n;
	*in += n;
	*in_len -= n;
	if (g->n_trailer < TRAILER)
		return 0;
	g->part = MEMBER_NONE;
	if (get_le32(g->trailer) != g->crc ||
	    get_le32(g->trailer + 4) != (uint32_t)(g->plain - g->begin))
		return error_set(err, EBADMSG, "wrong gzip checksum");
	return 0;
}

int span_gzip_run(struct span_gzip *g, const uint8_t **in, size_t *in_len,
		  uint8_t *out, size_t cap, size_t *ret_n, bool *ret_inside,
		  struct error *err)
{
	int rc;

	*ret_n = 0;
	if (g->part == MEMBER_NONE) {
		g->part = MEMBER_HEADER;
		g->header = (struct gzip_header){ .n = 0 };
	}
	if (g->part == MEMBER_HEADER)
		rc = read_header(g, in, in_len, err);
	else if (g->part == MEMBER_BLOCKS)
		rc = read_blocks(g, in, in_len, out, cap, ret_n, err);
	else
		rc = read_trailer(g, in, in_len, err);
	*ret_inside = g->part != MEMBER_NONE;
	return rc;
}
