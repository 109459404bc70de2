// SPDX-License-Identifier: Apache-2.0
/*
 * The filter behind which all bytes are verified: it cuts the stored bytes into blocks as they
 * arrive, unpacks each block, compares its SHA-256, and then passes it on. Only one block is in
 * memory at a time, unpacked only while it is passed on.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "blockstore/blockstore.h"

struct verify_sink {
	struct source_sink base;
	struct block_sink *next;
	const struct block_req *req;
	size_t index; /* the block that is being collected */
	uint64_t pos; /* offset of the next byte in the pack */
	uint64_t end;
	uint32_t filled; /* bytes in `stored` */
	/* Buffer to join a block that arrives in several pieces; NULL: not needed yet. */
	uint8_t *stored;
};

static int block_failed(const struct block *b, int rc, struct error *err)
{
	char text[DIGEST_STR_MAX];

	digest_format(&b->digest, text);
	return error_wrap(err, rc, "block %s at %" PRIu64, text, b->poff);
}

static int verify_and_pass_block(struct verify_sink *v, const uint8_t *stored,
				 struct error *err)
{
	const struct block *b = &v->req->blocks[v->index];
	uint8_t *room = NULL;
	int rc;

	if (b->codec == BLOCK_CODEC_RAW) {
		rc = block_check(b, stored, err);
	} else {
		room = block_room_take(v->req->rooms);
		if (!room)
			return error_nomem(err);
		rc = block_unpack(b, stored, room, err);
	}
	rc = rc < 0 ? block_failed(b, rc, err)
		    : v->next->put(v->next, v->index++, room ? room : stored,
				   err);
	block_room_give(v->req->rooms, room);
	return rc;
}

/* Take the next `n` bytes of a block that arrives in several pieces. */
static int join_block_pieces(struct verify_sink *v, const uint8_t *p,
			     uint32_t n, struct error *err)
{
	if (!v->stored)
		v->stored = block_room_take(v->req->rooms);
	if (!v->stored)
		return error_nomem(err);
	memcpy(v->stored + v->filled, p, n);
	v->filled += n;
	if (v->filled < v->req->blocks[v->index].csize)
		return 0;
	v->filled = 0;
	return verify_and_pass_block(v, v->stored, err);
}

static int verify_put(struct source_sink *sink, uint64_t pos, const void *data,
		      size_t len, struct error *err)
{
	struct verify_sink *v = container_of(sink, struct verify_sink, base);
	const uint8_t *p = data;

	if (pos != v->pos || len > v->end - v->pos)
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
			rc = verify_and_pass_block(v, p, err);
		} else {
			n = len < n ? (uint32_t)len : n;
			rc = join_block_pieces(v, p, n, err);
		}
		if (rc < 0)
			return rc;
		p += n;
		len -= n;
	}
	return 0;
}

struct verify_source {
	struct block_source base;
	struct source *next;
};

static int verify_read(struct block_source *s, const struct block_req *req,
		       struct block_sink *sink, struct error *err)
{
	struct verify_source *vs = container_of(s, struct verify_source, base);
	const struct block *last = &req->blocks[req->n_blocks - 1];
	struct source_req stored = { .off = req->blocks[0].poff,
				     .priority = req->priority,
				     .deadline_ns = req->deadline_ns,
				     .pace = req->pace };
	struct verify_sink v = { .base.put = verify_put,
				 .next = sink,
				 .req = req,
				 .pos = stored.off,
				 .end = last->poff + last->csize };
	int rc;

	stored.len = v.end - stored.off;
	rc = source_read(vs->next, &stored, &v.base, err);
	block_room_give(req->rooms, v.stored);
	if (rc == 0 && v.index != req->n_blocks)
		return error_set(err, EIO,
				 "source ended after %zu of %zu blocks",
				 v.index, req->n_blocks);
	return rc;
}

static void verify_free(struct block_source *s)
{
	struct verify_source *vs = container_of(s, struct verify_source, base);

	source_free(vs->next);
	free(vs);
}

static const struct block_source_ops verify_ops = {
	.name = "verify",
	.read = verify_read,
	.free = verify_free,
};

int verify_source_new(struct source *next, struct block_source **ret,
		      struct error *err)
{
	AUTO(source) owned = next;
	struct verify_source *vs = calloc(1, sizeof(*vs));

	if (!vs)
		return error_nomem(err);
	vs->base.ops = &verify_ops;
	vs->next = steal_ptr(&owned);
	*ret = &vs->base;
	return 0;
}

int verify_sources_new(struct source **next, size_t n,
		       struct block_source ***ret, struct error *err)
{
	struct block_source **all =
		(struct block_source **)calloc(n + 1,
					       sizeof(struct block_source *));
	int rc = all ? 0 : error_nomem(err);

	for (size_t k = 0; k < n; k++) {
		struct source *s = steal_ptr(&next[k]);

		if (rc == 0)
			rc = verify_source_new(s, &all[k], err);
		else
			source_free(s);
	}
	for (size_t k = 0; rc < 0 && all && k < n; k++)
		block_source_free(all[k]);
	if (rc < 0) {
		free(all);
		return rc;
	}
	*ret = all;
	return 0;
}
