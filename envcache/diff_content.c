// SPDX-License-Identifier: Apache-2.0
/*
 * Files are compared in two passes.  The first compares positions and digests: equal digests at
 * equal positions mean equal bytes; for whole blocks, different digests mean different bytes.  The
 * second pass fetches only what remains undecided.
 */
#include "envcache/diff_content.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "objects/oci.h"

enum piece_kind { PIECE_ZEROS, PIECE_BYTES, PIECE_BLOCK };

/* A run of a file's bytes with one kind of source. */
struct content_piece {
	enum piece_kind kind;
	uint64_t len;
	const uint8_t *bytes; /* content, if kind is PIECE_BYTES */
	size_t index;         /* number in the block map, if kind is
	                       * PIECE_BLOCK */
	uint32_t from;        /* first byte in the block */
	struct block block;
};

int content_side_init(struct content_side *s, const struct loaded *l,
		      struct error *err)
{
	*s = (struct content_side){ .l = l, .held = l->map.n_blocks };
	s->packs =
		(struct block_source **)calloc(l->artifact.n_packs + 1,
					       sizeof(struct block_source *));
	return s->packs ? 0 : error_nomem(err);
}

void content_side_fini(struct content_side *s)
{
	for (size_t i = 0; s->packs && i < s->l->artifact.n_packs; i++)
		block_source_free(s->packs[i]);
	free((void *)s->packs);
	free(s->data);
}

/* ------------------------------------------------------------------ where bytes lie --- */

/* The first extent that ends after `off`, or n_extents. */
static uint32_t find_extent(const struct inode *i, uint64_t off)
{
	uint32_t low = 0, high = i->n_extents;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (i->extents[mid].off + i->extents[mid].len <= off)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static int block_piece(const struct content_side *s, uint64_t voff,
		       struct content_piece *ret, struct error *err)
{
	const struct blockmap *m = &s->l->map;
	uint64_t room;

	ret->index = blockmap_find(m, voff);
	if (ret->index == m->n_blocks)
		return error_set(err, EBADMSG,
				 "the snapshot is damaged: no block holds byte "
				 "%llu",
				 (unsigned long long)voff);
	blockmap_block(m, ret->index, &ret->block);
	ret->from = (uint32_t)(voff - ret->block.voff);
	ret->kind = PIECE_BLOCK;
	room = ret->block.usize - ret->from;
	if (ret->from >= ret->block.usize) {
		/* The block's last 4096 bytes are padded with zeros. */
		ret->kind = PIECE_ZEROS;
		room = round_up(ret->block.usize, BLOCK_ALIGN) - ret->from;
	}
	ret->len = ret->len < room ? ret->len : room;
	return 0;
}

/* Find the piece at `off`, which must be less than the file's length. */
static int get_piece_at(const struct content_side *s, const struct inode *i,
			uint64_t off, struct content_piece *ret,
			struct error *err)
{
	const struct extent *x;
	uint32_t k;

	*ret = (struct content_piece){ .kind = PIECE_ZEROS,
				       .len = i->size - off };
	if (i->data == INODE_DATA_INLINE) {
		ret->kind = PIECE_BYTES;
		ret->bytes = i->bytes + off;
		return 0;
	}
	if (i->data != INODE_DATA_EXTENTS)
		return 0;
	k = find_extent(i, off);
	if (k == i->n_extents)
		return 0;
	x = &i->extents[k];
	if (off < x->off) {
		if (ret->len > x->off - off)
			ret->len = x->off - off;
		return 0;
	}
	if (ret->len > x->off + x->len - off)
		ret->len = x->off + x->len - off;
	return block_piece(s, x->voff + (off - x->off), ret, err);
}

/* ------------------------------------------------------------------------- by digest --- */

enum content_verdict { VERDICT_SAME, VERDICT_OTHER, VERDICT_OPEN };

static bool is_whole(const struct content_piece *p)
{
	return p->from == 0 && p->len == p->block.usize;
}

/* Compare the first `n` bytes of two pieces by digest, if possible. */
static enum content_verdict judge_pieces(const struct content_piece *p,
					 const struct content_piece *q,
					 uint64_t n)
{
	if (p->kind != q->kind)
		return VERDICT_OPEN;
	if (p->kind == PIECE_ZEROS)
		return VERDICT_SAME;
	if (p->kind == PIECE_BYTES)
		return memcmp(p->bytes, q->bytes, (size_t)n) == 0
			       ? VERDICT_SAME
			       : VERDICT_OTHER;
	if (digest_equal(&p->block.digest, &q->block.digest))
		return p->from == q->from ? VERDICT_SAME : VERDICT_OPEN;
	return is_whole(p) && is_whole(q) && p->len == q->len ? VERDICT_OTHER
							      : VERDICT_OPEN;
}

/* ------------------------------------------------------------------------- by content --- */

struct held_sink {
	struct block_sink base;
	uint8_t *data;
	size_t len;
};

static int held_sink_put(struct block_sink *sink, size_t index,
			 const void *data, struct error *err)
{
	struct held_sink *h = container_of(sink, struct held_sink, base);

	(void)index;
	(void)err;
	memcpy(h->data, data, h->len);
	return 0;
}

static int open_pack(struct content_side *s, uint32_t pack, struct error *err)
{
	const struct artifact *a = &s->l->artifact;
	struct source *source;
	int rc;

	if (s->packs[pack])
		return 0;
	rc = oci_open_blob(s->l->blobs, &a->packs[pack].digest,
			   a->packs[pack].size, &source, err);
	return rc < 0 ? rc : verify_source_new(source, &s->packs[pack], err);
}

static int fetch_block(struct content_side *s, const struct content_piece *p,
		       struct error *err)
{
	struct block_req req = { .blocks = &p->block,
				 .n_blocks = 1,
				 .priority = SOURCE_DEMAND };
	struct held_sink sink = { .base.put = held_sink_put,
				  .len = p->block.usize };
	int rc;

	if (s->held == p->index)
		return 0;
	if (!s->data)
		s->data = malloc(BLOCK_USIZE_MAX);
	if (!s->data)
		return error_nomem(err);
	s->held = s->l->map.n_blocks;
	sink.data = s->data;
	rc = open_pack(s, p->block.pack, err);
	if (rc == 0)
		rc = block_source_read(s->packs[p->block.pack], &req,
				       &sink.base, err);
	if (rc == 0) {
		s->held = p->index;
		s->fetched += p->block.usize;
	}
	return rc;
}

/* Get the bytes of a piece, valid until the next call for this side; NULL: zeros. */
static int get_piece_bytes(struct content_side *s,
			   const struct content_piece *p, const uint8_t **ret,
			   struct error *err)
{
	int rc = 0;

	*ret = p->kind == PIECE_BYTES ? p->bytes : NULL;
	if (p->kind == PIECE_BLOCK) {
		rc = fetch_block(s, p, err);
		*ret = s->data + p->from;
	}
	return rc;
}

static bool is_same_bytes(const uint8_t *p, const uint8_t *q, size_t len)
{
	if (p && q)
		return memcmp(p, q, len) == 0;
	return (!p || bytes_are_zero(p, len)) && (!q || bytes_are_zero(q, len));
}

static int compare_bytes(struct content_side *a, const struct content_piece *p,
			 struct content_side *b, const struct content_piece *q,
			 uint64_t n, enum content_verdict *ret,
			 struct error *err)
{
	const uint8_t *x, *y;
	int rc = get_piece_bytes(a, p, &x, err);

	if (rc == 0)
		rc = get_piece_bytes(b, q, &y, err);
	if (rc == 0)
		*ret = is_same_bytes(x, y, (size_t)n) ? VERDICT_SAME
						      : VERDICT_OTHER;
	return rc;
}

/* ------------------------------------------------------------------------ both passes --- */

static int compare_files(struct content_side *a, const struct inode *x,
			 struct content_side *b, const struct inode *y,
			 bool fetch, enum content_verdict *ret,
			 struct error *err)
{
	bool is_open = false;

	for (uint64_t off = 0; off < x->size;) {
		struct content_piece p, q;
		enum content_verdict v;
		uint64_t n;
		int rc = get_piece_at(a, x, off, &p, err);

		if (rc == 0)
			rc = get_piece_at(b, y, off, &q, err);
		if (rc < 0)
			return rc;
		n = p.len < q.len ? p.len : q.len;
		v = judge_pieces(&p, &q, n);
		if (v == VERDICT_OPEN && fetch)
			rc = compare_bytes(a, &p, b, &q, n, &v, err);
		if (rc < 0)
			return rc;
		if (v == VERDICT_OTHER) {
			*ret = v;
			return 0;
		}
		is_open |= v == VERDICT_OPEN;
		off += n;
	}
	*ret = is_open ? VERDICT_OPEN : VERDICT_SAME;
	return 0;
}

int content_is_same(struct content_side *a, const struct inode *x,
		    struct content_side *b, const struct inode *y,
		    bool *ret_same, struct error *err)
{
	enum content_verdict v = VERDICT_OTHER;
	int rc = 0;

	if (x->size == y->size)
		rc = compare_files(a, x, b, y, false, &v, err);
	if (rc == 0 && v == VERDICT_OPEN)
		rc = compare_files(a, x, b, y, true, &v, err);
	if (rc == 0)
		*ret_same = v == VERDICT_SAME;
	return rc;
}
