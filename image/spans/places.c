// SPDX-License-Identifier: Apache-2.0
/*
 * Finds from which bytes of which layer each block is made. A file's extents tell its places in
 * the device, and file_part the parts of layers that it came from; both together give pieces of
 * the device. Of blocks with equal bytes, the first one's pieces become places of the content.
 */
#include <stdlib.h>

#include "common/array.h"
#include "image/spans/span_set.h"
#include "image/tree.h"

#define PLACE_LEN_MAX (1u << 30)

/* A part of the device, with the part of a layer that holds the same bytes. */
struct device_piece {
	uint64_t voff, len, plain;
	uint32_t pack;
};

struct device_pieces {
	struct device_piece *v;
	size_t n, cap;
};

static int add_pieces(struct device_pieces *p, const struct file_part *part,
		      struct error *err)
{
	const struct inode *i = part->inode;
	uint64_t end = part->off + part->len;
	size_t lo = 0, hi = i->n_extents;

	if (i->data != INODE_DATA_EXTENTS)
		return 0;
	/* Find the first extent that does not end before the part. */
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (i->extents[mid].off + i->extents[mid].len <= part->off)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < i->n_extents && i->extents[lo].off < end; lo++) {
		const struct extent *x = &i->extents[lo];
		uint64_t from = x->off > part->off ? x->off : part->off;
		uint64_t to = x->off + x->len < end ? x->off + x->len : end;

		if (array_grow(&p->v, p->n, &p->cap, 1024) < 0)
			return error_nomem(err);
		p->v[p->n++] = (struct device_piece){
			.voff = x->voff + (from - x->off),
			.len = to - from,
			.plain = part->plain + (from - part->off),
			.pack = part->pack,
		};
	}
	return 0;
}

static int places_compare(const void *a, const void *b)
{
	const struct device_piece *x = a, *y = b;

	if (x->voff != y->voff)
		return x->voff < y->voff ? -1 : 1;
	if (x->pack != y->pack)
		return x->pack < y->pack ? -1 : 1;
	return (x->plain > y->plain) - (x->plain < y->plain);
}

struct place_writer {
	struct blockmap_writer *w;
	/* place not yet written, as it may grow; len 0: none */
	struct content_place last;
};

static int flush_place(struct place_writer *p, struct error *err)
{
	return p->last.len ? blockmap_writer_place(p->w, &p->last, err) : 0;
}

static int put_place(struct place_writer *p, const struct content_place *now,
		     struct error *err)
{
	struct content_place *last = &p->last;
	int rc;

	if (last->len && last->pack == now->pack &&
	    last->at + last->len == now->at &&
	    last->plain + last->len == now->plain &&
	    last->len < PLACE_LEN_MAX) {
		last->len += now->len;
		return 0;
	}
	rc = flush_place(p, err);
	*last = *now;
	return rc;
}

/* Write the places of the block, from piece `*at` on, and move `*at` past the pieces that
 * lie before the block. */
static int put_block_places(struct place_writer *w,
			    const struct device_pieces *p, size_t *at,
			    const struct block *b, struct error *err)
{
	uint64_t pos = b->voff, end = b->voff + b->usize;
	int rc = 0;

	while (*at < p->n && p->v[*at].voff + p->v[*at].len <= pos)
		(*at)++;
	for (size_t i = *at; rc == 0 && i < p->n && p->v[i].voff < end; i++) {
		const struct device_piece *d = &p->v[i];
		uint64_t to = d->voff + d->len < end ? d->voff + d->len : end;
		struct content_place now;

		/* Equal files have the same place in the device: these bytes were written
		 * already. */
		if (to <= pos)
			continue;
		if (d->voff > pos)
			pos = d->voff;
		now = (struct content_place){ .at = b->poff + (pos - b->voff),
					      .plain = d->plain +
						       (pos - d->voff),
					      .len = (uint32_t)(to - pos),
					      .pack = d->pack };
		rc = put_place(w, &now, err);
		pos = to;
	}
	return rc;
}

int places_write(const struct file_part *parts, size_t n_parts,
		 const struct block *first, size_t n_first,
		 struct blockmap_writer *w, struct error *err)
{
	struct device_pieces p = { .n = 0 };
	struct place_writer writer = { .w = w };
	size_t at = 0;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < n_parts; i++)
		rc = add_pieces(&p, &parts[i], err);
	if (rc == 0 && p.n)
		qsort(p.v, p.n, sizeof(*p.v), places_compare);
	for (size_t i = 0; rc == 0 && i < n_first; i++)
		rc = put_block_places(&writer, &p, &at, &first[i], err);
	if (rc == 0)
		rc = flush_place(&writer, err);
	free(p.v);
	return rc;
}
