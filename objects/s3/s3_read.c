// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "objects/s3/s3_store_priv.h"

int s3_store_stat(struct object_store *base, const char *name,
		  struct object_stat *ret, struct error *err)
{
	struct s3_request r = { .method = "HEAD", .name = name };
	AUTO_FINI(http_response) resp = HTTP_RESPONSE_INIT;
	int rc = s3_call(s3_store_of(base), &r, &resp, err);

	if (rc == 0)
		rc = s3_stat_fill(&resp, ret, err);
	return rc;
}

/* Open an object without a request: its size is learnt from the first answer. */
int s3_store_open_unasked(struct object_store *s, const char *name,
			  struct object **ret, struct error *err)
{
	struct object *o = calloc(1, sizeof(*o));
	int rc;

	if (!o)
		return error_nomem(err);
	o->stat = (struct object_stat){ .size = UINT64_MAX, .modified_ms = -1 };
	rc = store_object_init(o, s, name, err);
	if (rc == 0)
		*ret = o;
	else
		s3_store_close(o);
	return rc;
}

int s3_store_open_object(struct object_store *s, const char *name,
			 struct object **ret, struct error *err)
{
	struct object *o;
	int rc = s3_store_open_unasked(s, name, &o, err);

	if (rc == 0)
		rc = s3_store_stat(s, name, &o->stat, err);
	if (rc == 0)
		*ret = o;
	else
		s3_store_close(o);
	return rc;
}

/* Size of the object, from an answer: "bytes 0-99/1234" for a range, "1234" for all of it. */
static uint64_t answer_size(const struct http_response *resp)
{
	AUTO_FREE char *text =
		http_header(resp, resp->status == 206 ? "content-range"
						      : "content-length");
	const char *slash = text ? strrchr(text, '/') : NULL;
	const char *size = slash ? slash + 1 : text;

	return size && isdigit((unsigned char)*size) ? strtoull(size, NULL, 10)
						     : UINT64_MAX;
}

int s3_store_open_head(struct object_store *s, const char *name, size_t most,
		       struct object **ret, struct error *err)
{
	struct object *o;
	struct object_stat st;
	struct s3_request r = { .method = "GET", .name = name };
	struct http_response resp = HTTP_RESPONSE_INIT;
	char range[64];
	int rc = s3_store_open_unasked(s, name, &o, err);

	if (rc < 0)
		return rc;
	(void)snprintf(range, sizeof(range), "bytes=0-%zu", most - 1);
	s3_header(&r, "range", range);
	r.whole = &o->head;
	r.whole_max = most;
	rc = s3_call(s3_store_of(s), &r, &resp, err);
	if (rc == 0 && s3_stat_fill(&resp, &st, NULL) == 0) {
		o->stat = st;
		o->stat.size = answer_size(&resp);
	}
	/* An empty object has no range, some servers send all of a large one, and a compressing
	 * proxy leaves the length out: ask for the size. */
	if (rc == -ERANGE || rc == -EFBIG ||
	    (rc == 0 && o->stat.size == UINT64_MAX)) {
		buf_fini(&o->head);
		rc = s3_store_stat(s, name, &o->stat, err);
	}
	http_response_fini(&resp);
	if (rc == 0)
		*ret = o;
	else
		s3_store_close(o);
	return rc;
}

void s3_store_close(struct object *o)
{
	store_object_fini(o);
	free(o);
}

int s3_store_get(struct object_store *base, const char *name, size_t max,
		 struct buf *ret, struct object_stat *ret_stat,
		 struct error *err)
{
	struct s3_request r = {
		.method = "GET", .name = name, .whole = ret, .whole_max = max
	};
	AUTO_FINI(http_response) resp = HTTP_RESPONSE_INIT;
	int rc = s3_call(s3_store_of(base), &r, &resp, err);

	/* A compressing proxy leaves the length out. */
	if (rc == 0 && (s3_stat_fill(&resp, ret_stat, NULL) < 0 ||
			ret_stat->size != ret->len))
		rc = -ENOTSUP;
	return rc;
}

struct s3_range_sink {
	struct http_sink base;
	struct fetch_try *try;
	uint64_t size; /* size of the object; UINT64_MAX: not known yet */
};

static int take_body(struct http_sink *base, const struct http_response *resp,
		     const void *data, size_t len, struct error *err)
{
	struct s3_range_sink *s =
		container_of(base, struct s3_range_sink, base);
	struct fetch_try *t = s->try;

	if (s->size == UINT64_MAX)
		s->size = answer_size(resp);
	if (t->end > s->size)
		return error_set(err, ERANGE,
				 "it has %" PRIu64 " bytes, and no more",
				 s->size);
	/* The server ignored the range and sent everything. */
	if (resp->status != 206 && (t->pos != 0 || t->end != s->size))
		return error_set(err, ENOTSUP,
				 "the server sends whole objects where a "
				 "range was asked for: use another one");
	return fetch_put(t, data, len, err);
}

static int fetch_range(struct fetch_try *t, struct retry_verdict *v,
		       struct error *err)
{
	struct s3_store *s = s3_store_of(t->object->store);
	const struct object_stat *st = &t->object->stat;
	struct s3_range_sink sink = { .base.put = take_body,
				      .try = t,
				      .size = st->size };
	AUTO_FINI(http_response) resp = HTTP_RESPONSE_INIT;
	struct s3_request r = {
		.method = "GET",
		.name = t->object->name,
		.sink = &sink.base,
		.pace = &t->pace,
		.deadline_ns = t->until_ns,
	};
	char range[64];
	int rc;

	(void)snprintf(range, sizeof(range), "bytes=%" PRIu64 "-%" PRIu64,
		       t->pos, t->end - 1);
	s3_header(&r, "range", range);
	s3_header(&r, "if-match", *st->tag ? st->tag : NULL);
	rc = s3_try(s, &r, &resp, v, err);
	/* This version was removed. */
	if (rc == -ENOENT && resp.status == 404 && *st->tag)
		rc = error_set(err, ESTALE, "it was removed while it was read");
	else if (rc == -ESTALE)
		rc = error_set(err, ESTALE,
			       "it was replaced while it was read");
	else if (rc == 0 && t->pos < t->end) {
		v->can_retry = true;
		rc = error_set(err, EIO, "%s: the answer ends at byte %" PRIu64,
			       s->origin, t->pos);
	}
	return rc;
}

int s3_store_read(struct object *o, const struct object_range *ranges, size_t n,
		  int64_t deadline_ns, struct error *err)
{
	return fetch_ranges(o, s3_store_of(o->store)->history, fetch_range,
			    ranges, n, deadline_ns, err);
}
