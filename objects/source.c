// SPDX-License-Identifier: Apache-2.0
/* The one way to call a source: checks what every kind relies on. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "objects/source.h"

int source_read(struct source *s, const struct source_req *req,
		struct source_sink *sink, struct error *err)
{
	if (req->len > UINT64_MAX - req->off ||
	    (s->size && (req->off > s->size || req->len > s->size - req->off)))
		return error_set(err, ERANGE,
				 "%" PRIu64 " bytes at %" PRIu64
				 " lie outside an object of %" PRIu64,
				 req->len, req->off, s->size);
	if (req->len == 0)
		return 0;
	return s->ops->read(s, req, sink, err);
}

bool source_may_pass(int rc)
{
	return rc == -EIO || rc == -EBUSY || rc == -ETIMEDOUT ||
	       rc == -ECONNREFUSED;
}

struct buf_sink {
	struct source_sink base;
	uint64_t off, len, got;
	char *buf;
};

static int buf_sink_put(struct source_sink *sink, uint64_t pos,
			const void *data, size_t len, struct error *err)
{
	struct buf_sink *b = container_of(sink, struct buf_sink, base);

	if (pos != b->off + b->got || len > b->len - b->got)
		return error_set(err, EIO,
				 "source passed on %zu bytes at %" PRIu64
				 " that were not asked for",
				 len, pos);
	memcpy(b->buf + b->got, data, len);
	b->got += len;
	return 0;
}

int source_read_into(struct source *s, const struct source_req *req, void *buf,
		     struct error *err)
{
	struct buf_sink b = { .base.put = buf_sink_put,
			      .off = req->off,
			      .len = req->len,
			      .buf = buf };
	int rc = source_read(s, req, &b.base, err);

	if (rc == 0 && b.got != req->len)
		return error_set(err, EIO,
				 "source ended after %" PRIu64 " of %" PRIu64
				 " bytes",
				 b.got, req->len);
	return rc;
}

int source_read_buf(struct source *s, uint64_t off, void *buf, size_t len,
		    struct error *err)
{
	struct source_req req = { .off = off, .len = len };

	return source_read_into(s, &req, buf, err);
}

void source_free(struct source *s)
{
	if (s)
		s->ops->free(s);
}
