// SPDX-License-Identifier: Apache-2.0
/* Answers to containerd: refusals, and the bytes of layers as they come. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/clock.h"
#include "snapshotter/node/mirror/mirror_priv.h"

void mirror_refuse(struct httpd_request *r)
{
	httpd_answer_error(r, HTTPD_NOT_FOUND,
			   "that is for the registry to answer");
}

void mirror_image_touch(struct mirror_image *i)
{
	i->used_ns = clock_now_ns();
	TAILQ_REMOVE(&i->m->images, i, link);
	TAILQ_INSERT_TAIL(&i->m->images, i, link);
}

void mirror_image_put(struct mirror_image *i)
{
	i->refs--;
	mirror_image_touch(i);
}

static int64_t stream_read(void *arg, void *buf, size_t max)
{
	struct layer_stream *s = arg;
	struct mirror_layer *l = s->l;
	uint64_t left = s->end - s->pos;
	uint64_t n = layer_file_readable(l->p->file, s->pos,
					 left < max ? left : max);
	int rc;

	if (n == 0)
		return l->state == LAYER_FAILED ? -EIO : 0;
	rc = layer_file_read(l->p->file, s->pos, buf, (size_t)n);
	if (rc < 0)
		return rc;
	s->pos += n;
	atomic_fetch_add(&l->i->m->counts.served_bytes, n);
	return (int64_t)n;
}

static void stream_end(void *arg)
{
	struct layer_stream *s = arg;
	struct mirror_image *i = s->l->i;

	TAILQ_REMOVE(&s->l->streams, s, link);
	mirror_image_put(i);
	free(s);
}

/* Parse "bytes=A-" or "bytes=A-B"; false: no range, or another kind, which HTTP allows to
 * ignore. */
static bool parse_range(const char *text, uint64_t *ret_from, uint64_t *ret_to)
{
	int len = 0;

	if (!text)
		return false;
	*ret_to = UINT64_MAX;
	if (sscanf(text, "bytes=%" SCNu64 "-%n", ret_from, &len) != 1 || !len)
		return false;
	return !text[len] || (sscanf(text + len, "%" SCNu64, ret_to) == 1 &&
			      *ret_to >= *ret_from);
}

static int put_range(struct httpd_reply *reply, const struct layer_stream *s,
		     uint64_t size)
{
	reply->status = HTTPD_PARTIAL;
	return buf_printf(&reply->headers,
			  "Content-Range: bytes %" PRIu64 "-%" PRIu64
			  "/%" PRIu64 "\r\n",
			  s->pos, s->end - 1, size);
}

static int put_headers(struct httpd_reply *reply, const struct mirror_layer *l,
		       const struct layer_stream *s, bool is_range)
{
	char name[DIGEST_STR_MAX];

	digest_format(&l->p->digest, name);
	if (buf_printf(&reply->headers,
		       "Docker-Content-Digest: %s\r\nAccept-Ranges: bytes\r\n",
		       name) < 0)
		return -ENOMEM;
	return is_range ? put_range(reply, s, l->p->size) : 0;
}

void mirror_send_layer(struct mirror_layer *l, struct httpd_request *r)
{
	struct httpd_reply reply = { .status = HTTPD_OK,
				     .type = "application/octet-stream" };
	struct layer_stream *s;
	uint64_t from = 0, to = UINT64_MAX;
	bool is_range =
		parse_range(httpd_head_get(&r->head, "Range"), &from, &to);

	if (!is_range)
		to = UINT64_MAX;
	if (is_range && from >= l->p->size) {
		httpd_answer_error(r, HTTPD_RANGE, "the layer is shorter");
		return;
	}
	s = calloc(1, sizeof(*s));
	if (!s) {
		mirror_refuse(r);
		return;
	}
	s->l = l;
	s->request = r;
	s->pos = is_range ? from : 0;
	s->end = to < l->p->size ? to + 1 : l->p->size;
	if (put_headers(&reply, l, s, is_range) < 0) {
		httpd_reply_fini(&reply);
		free(s);
		mirror_refuse(r);
		return;
	}
	TAILQ_INSERT_TAIL(&l->streams, s, link);
	l->i->refs++;
	atomic_fetch_add(&l->i->m->counts.served, 1);
	reply.stream = (struct httpd_stream){ .len = s->end - s->pos,
					      .read = stream_read,
					      .end = stream_end,
					      .arg = s };
	httpd_answer(r, &reply);
}

void mirror_streams_go_on(struct mirror_layer *l)
{
	struct layer_stream *s = TAILQ_FIRST(&l->streams), *next;

	for (; s; s = next) {
		next = TAILQ_NEXT(s, link);
		httpd_more(s->request);
	}
}
