// SPDX-License-Identifier: Apache-2.0
/*
 * Follows frames of HTTP/2 (RFC 9113, sections 4 and 6). Every header block must go through the
 * decompressor, whose state it changes; otherwise only data of streams that call the method is
 * kept. Messages are skipped when more than GRPC_TAP_STREAMS calls are open, or when they are
 * too long.
 */
#include "net/grpc_tap.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <string.h>

#include "net/grpc_wire.h"

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define PREFACE_SIZE 24u
#define FRAME_HEAD_SIZE 9u
#define HEADERS_MAX ((size_t)1 << 16) /* bytes of a compressed block */

enum frame_type {
	FRAME_DATA = 0,
	FRAME_HEADERS = 1,
	FRAME_RST_STREAM = 3,
	FRAME_CONTINUATION = 9,
};
#define FLAG_END_STREAM 0x1u
#define FLAG_END_HEADERS 0x4u
#define FLAG_PADDED 0x8u
#define FLAG_PRIORITY 0x20u

struct tapped_call {
	uint32_t stream; /* 0: the place is free */
	struct grpc_message message;
};

struct grpc_tap {
	const char *path;
	void (*request)(void *arg, const void *message, size_t len);
	void *arg;
	nghttp2_hd_inflater *inflater;
	struct tapped_call calls[GRPC_TAP_STREAMS];

	size_t n_preface; /* bytes of the preface received */
	uint8_t head[FRAME_HEAD_SIZE];
	size_t n_head;
	/* The frame whose head is complete: */
	size_t left; /* bytes of its payload still to come */
	uint8_t type, flags;
	uint32_t stream;
	struct buf payload; /* kept only for frames that are used */
	struct buf block;   /* of headers, over CONTINUATION frames */
	uint32_t block_stream;
	bool block_ends_stream;
};

int grpc_tap_new(const char *path,
		 void (*request)(void *arg, const void *message, size_t len),
		 void *arg, struct grpc_tap **ret, struct error *err)
{
	struct grpc_tap *t = calloc(1, sizeof(*t));

	if (!t || nghttp2_hd_inflate_new(&t->inflater) != 0) {
		free(t);
		return error_nomem(err);
	}
	t->path = path;
	t->payload.is_secret = true;
	t->request = request;
	t->arg = arg;
	*ret = t;
	return 0;
}

static void end_call(struct tapped_call *c)
{
	buf_fini(&c->message.body);
	*c = (struct tapped_call){ .stream = 0 };
}

void grpc_tap_free(struct grpc_tap *t)
{
	if (!t)
		return;
	for (size_t k = 0; k < GRPC_TAP_STREAMS; k++)
		end_call(&t->calls[k]);
	nghttp2_hd_inflate_del(t->inflater);
	buf_fini(&t->payload);
	buf_fini(&t->block);
	free(t);
}

static struct tapped_call *find_call(struct grpc_tap *t, uint32_t stream)
{
	for (size_t k = 0; k < GRPC_TAP_STREAMS; k++)
		if (t->calls[k].stream == stream)
			return &t->calls[k];
	return NULL;
}

/* The client has ended or reset the stream: pass on its message if that is complete. */
static void finish_call(struct grpc_tap *t, struct tapped_call *c)
{
	if (grpc_message_check_end(&c->message, NULL) == 0)
		t->request(t->arg,
			   c->message.body.data ? c->message.body.data : "",
			   c->message.body.len);
	end_call(c);
}

/* ------------------------------------------------------------------- headers --- */

/* Decompress a complete header block; `*ret`: it is a call of the method. */
static int read_block(struct grpc_tap *t, bool *ret, struct error *err)
{
	const uint8_t *in = (const uint8_t *)t->block.data;
	size_t len = t->block.len;
	bool is_of_method = false;

	for (;;) {
		nghttp2_nv nv;
		int flags = 0;
		ssize_t n = nghttp2_hd_inflate_hd2(t->inflater, &nv, &flags, in,
						   len, 1);

		if (n < 0)
			return error_set(err, EBADMSG, "headers: %s",
					 nghttp2_strerror((int)n));
		in += n;
		len -= (size_t)n;
		if (flags & NGHTTP2_HD_INFLATE_EMIT)
			is_of_method =
				is_of_method ||
				(nv.namelen == 5 &&
				 memcmp(nv.name, ":path", 5) == 0 &&
				 nv.valuelen == strlen(t->path) &&
				 memcmp(nv.value, t->path, nv.valuelen) == 0);
		if (flags & NGHTTP2_HD_INFLATE_FINAL)
			break;
		if (!(flags & NGHTTP2_HD_INFLATE_EMIT) && len == 0)
			return error_set(err, EBADMSG, "headers are cut short");
	}
	nghttp2_hd_inflate_end_headers(t->inflater);
	*ret = is_of_method;
	return 0;
}

static int end_block(struct grpc_tap *t, struct error *err)
{
	struct tapped_call *c;
	bool is_of_method = false;
	int rc = read_block(t, &is_of_method, err);

	buf_reset(&t->block);
	if (rc < 0)
		return rc;
	c = find_call(t, t->block_stream);
	if (!c && is_of_method && !t->block_ends_stream) {
		c = find_call(t, 0);
		if (c) {
			c->stream = t->block_stream;
			c->message.body.is_secret = true;
		}
	} else if (c && t->block_ends_stream) {
		finish_call(t, c);
	}
	return 0;
}

/* Cut padding and priority off a payload. */
static int strip_payload(const struct grpc_tap *t, const uint8_t **data,
			 size_t *len, struct error *err)
{
	size_t front = 0, padding = 0;

	if (t->flags & FLAG_PADDED) {
		padding = *len ? (*data)[0] : 0;
		front = 1;
	}
	if (t->type == FRAME_HEADERS && (t->flags & FLAG_PRIORITY))
		front += 5;
	if (front + padding > *len)
		return error_set(err, EBADMSG, "a frame is all padding");
	*data += front;
	*len -= front + padding;
	return 0;
}

static int add_headers(struct grpc_tap *t, const uint8_t *data, size_t len,
		       struct error *err)
{
	int rc = 0;

	if (t->type == FRAME_HEADERS) {
		rc = strip_payload(t, &data, &len, err);
		t->block_stream = t->stream;
		t->block_ends_stream = t->flags & FLAG_END_STREAM;
	} else if (t->stream != t->block_stream) {
		rc = error_set(err, EBADMSG, "headers of two streams");
	}
	if (rc == 0 && t->stream == 0)
		rc = error_set(err, EBADMSG, "headers of no stream");
	if (rc == 0 && t->block.len + len > HEADERS_MAX)
		rc = error_set(err, EMSGSIZE, "headers over %zu bytes",
			       HEADERS_MAX);
	if (rc == 0 && buf_append(&t->block, data, len) < 0)
		rc = error_nomem(err);
	if (rc == 0 && (t->flags & FLAG_END_HEADERS))
		rc = end_block(t, err);
	return rc;
}

/* -------------------------------------------------------------------- frames --- */

static int add_data(struct grpc_tap *t, const uint8_t *data, size_t len,
		    struct error *err)
{
	struct tapped_call *c = t->stream ? find_call(t, t->stream) : NULL;
	int rc;

	if (!c)
		return 0;
	rc = strip_payload(t, &data, &len, err);
	if (rc < 0)
		return rc;
	/* The server refuses such a message too. A complete message is passed on here, since
	 * the stream's end may come later, in a separate frame. */
	if (grpc_message_feed(&c->message, data, len, GRPC_TAP_MESSAGE_MAX,
			      NULL) < 0)
		end_call(c);
	else if (grpc_message_check_end(&c->message, NULL) == 0 ||
		 (t->flags & FLAG_END_STREAM))
		finish_call(t, c);
	return 0;
}

static bool frame_is_wanted(struct grpc_tap *t)
{
	return t->type == FRAME_HEADERS || t->type == FRAME_CONTINUATION ||
	       (t->type == FRAME_DATA && t->stream && find_call(t, t->stream));
}

static int end_frame(struct grpc_tap *t, struct error *err)
{
	const uint8_t *data =
		(const uint8_t *)(t->payload.data ? t->payload.data : "");
	struct tapped_call *c;
	int rc = 0;

	if (t->type == FRAME_HEADERS || t->type == FRAME_CONTINUATION) {
		rc = add_headers(t, data, t->payload.len, err);
	} else if (t->type == FRAME_DATA) {
		rc = add_data(t, data, t->payload.len, err);
	} else if (t->type == FRAME_RST_STREAM && t->stream) {
		c = find_call(t, t->stream);
		if (c)
			end_call(c);
	}
	buf_reset(&t->payload);
	t->n_head = 0;
	return rc;
}

static int begin_frame(struct grpc_tap *t, struct error *err)
{
	const uint8_t *h = t->head;

	t->left = (size_t)h[0] << 16 | (size_t)h[1] << 8 | h[2];
	t->type = h[3];
	t->flags = h[4];
	t->stream = ((uint32_t)h[5] << 24 | (uint32_t)h[6] << 16 |
		     (uint32_t)h[7] << 8 | h[8]) &
		    0x7fffffffu;
	if (frame_is_wanted(t) && t->left > GRPC_TAP_MESSAGE_MAX)
		return error_set(err, EMSGSIZE, "a frame of %zu bytes",
				 t->left);
	return t->left == 0 ? end_frame(t, err) : 0;
}

/* Parse the next part of the stream; returns the number of bytes consumed. */
static size_t take_frame_bytes(struct grpc_tap *t, const uint8_t *data,
			       size_t len, int *rc, struct error *err)
{
	size_t n;

	if (t->n_preface < PREFACE_SIZE) {
		n = PREFACE_SIZE - t->n_preface;
		n = n < len ? n : len;
		if (memcmp(data, &PREFACE[t->n_preface], n) != 0)
			*rc = error_set(err, EPROTO, "it is no HTTP/2");
		t->n_preface += n;
		return n;
	}
	if (t->n_head < FRAME_HEAD_SIZE) {
		n = FRAME_HEAD_SIZE - t->n_head;
		n = n < len ? n : len;
		memcpy(t->head + t->n_head, data, n);
		t->n_head += n;
		if (t->n_head == FRAME_HEAD_SIZE)
			*rc = begin_frame(t, err);
		return n;
	}
	n = t->left < len ? t->left : len;
	if (frame_is_wanted(t) && buf_append(&t->payload, data, n) < 0)
		*rc = error_nomem(err);
	t->left -= n;
	if (*rc == 0 && t->left == 0)
		*rc = end_frame(t, err);
	return n;
}

int grpc_tap_feed(struct grpc_tap *t, const uint8_t *data, size_t len,
		  struct error *err)
{
	int rc = 0;

	while (len > 0 && rc == 0) {
		size_t n = take_frame_bytes(t, data, len, &rc, err);

		data += n;
		len -= n;
	}
	return rc;
}
