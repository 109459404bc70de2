// SPDX-License-Identifier: Apache-2.0
/*
 * The filter above which all bytes are known to be right: it cuts the stored
 * bytes into blocks as they arrive, unpacks each, compares its SHA-256 and only
 * then passes it on.  One block is in memory at a time.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "blockstore/blockstore.h"

struct verify_sink {
	struct source_sink base;
	struct source_sink *next;
	const struct source_req *req;
	size_t index;    /* block being collected */
	uint64_t pos;    /* next byte of the object */
	uint32_t filled; /* bytes in `stored` */
	uint8_t *stored; /* a block cut by piece borders is put together here */
	uint8_t *plain;
};

static int block_failed(const struct block *b, int rc, struct error *err)
{
	char text[DIGEST_STR_MAX];

	digest_format(&b->digest, text);
	return error_wrap(err, rc, "block %s at %" PRIu64, text, b->poff);
}

static int pass_on(struct verify_sink *v, const uint8_t *stored,
		   struct error *err)
{
	const struct block *b = &v->req->blocks[v->index];
	const uint8_t *plain = stored;
	int rc;

	if (b->codec == BLOCK_CODEC_RAW) {
		rc = block_check(b, stored, err);
	} else {
		rc = block_unpack(b, stored, v->plain, err);
		plain = v->plain;
	}
	if (rc < 0)
		return block_failed(b, rc, err);
	return v->next->put(v->next, v->index++, plain, b->usize, err);
}

static int verify_put(struct source_sink *sink, uint64_t pos, const void *data,
		      size_t len, struct error *err)
{
	struct verify_sink *v = container_of(sink, struct verify_sink, base);
	const uint8_t *p = data;

	if (pos != v->pos || len > v->req->off + v->req->len - v->pos)
		return error_set(err, EIO,
				 "source passed on %zu bytes at %" PRIu64
				 " that were not asked for",
				 len, pos);
	v->pos += len;
	while (len) {
		const struct block *b = &v->req->blocks[v->index];
		uint32_t n = b->csize - v->filled;
		int rc;

		if (!v->filled && len >= n) {
			rc = pass_on(v, p, err);
		} else {
			n = len < n ? (uint32_t)len : n;
			memcpy(v->stored + v->filled, p, n);
			v->filled += n;
			rc = 0;
			if (v->filled == b->csize) {
				v->filled = 0;
				rc = pass_on(v, v->stored, err);
			}
		}
		if (rc < 0)
			return rc;
		p += n;
		len -= n;
	}
	return 0;
}

static int verify_read(struct source *s, const struct source_req *req,
		       struct source_sink *sink, struct error *err)
{
	struct verify_sink v = { .base.put = verify_put,
				 .next = sink,
				 .req = req,
				 .pos = req->off };
	AUTO_FREE uint8_t *room = NULL;
	size_t usize = 0, csize = 0;
	int rc;

	if (!req->blocks)
		return error_set(err, EINVAL, "only whole blocks are verified");
	for (size_t i = 0; i < req->n_blocks; i++) {
		const struct block *b = &req->blocks[i];

		if (!b->usize || b->usize > BLOCK_USIZE_MAX ||
		    b->csize > b->usize)
			return error_set(err, EINVAL,
					 "a block of %" PRIu32 " bytes",
					 b->usize);
		usize = b->usize > usize ? b->usize : usize;
		csize = b->csize > csize ? b->csize : csize;
	}
	room = malloc(usize + csize);
	if (!room)
		return error_nomem(err);
	v.plain = room;
	v.stored = room + usize;
	rc = source_read(s->next, req, &v.base, err);
	if (rc == 0 && v.index != req->n_blocks)
		return error_set(err, EIO,
				 "source ended after %zu of %zu blocks",
				 v.index, req->n_blocks);
	return rc;
}

static void verify_free(struct source *s)
{
	source_free(s->next);
	free(s);
}

static const struct source_ops verify_ops = {
	.name = "verify",
	.read = verify_read,
	.free = verify_free,
	.is_verified = true,
};

int verify_source_new(struct source *next, struct source **ret,
		      struct error *err)
{
	AUTO(source) owned = next;
	struct source *s = calloc(1, sizeof(*s));

	if (!s)
		return error_nomem(err);
	s->ops = &verify_ops;
	s->size = next->size;
	s->next = steal_ptr(&owned);
	*ret = s;
	return 0;
}
