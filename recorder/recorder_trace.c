// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the files and blocks of recorded pages. Runs once, at the end of a window, while the
 * start goes on.
 */
#include <errno.h>
#include <string.h>

#include "common/array.h"
#include "recorder/recorder_priv.h"
#include "recorder/trace_priv.h"

/* before neighbours are joined */
#define PIECES_MAX (2 * TRACE_ENTRIES_MAX)
/* Limit of the file ranges that are examined: an image may claim that all of its files lie
 * at one place, and that it holds no data. */
#define STEPS_MAX (8 * TRACE_ENTRIES_MAX)

_Static_assert(FILE_MAP_PATH_MAX <= TRACE_PATH_MAX,
	       "a trace has room for each path of a file map");

/* A contiguous part of one file in one block. */
struct trace_piece {
	/* owned by the builder; equal paths have the same pointer */
	const char *path;
	uint64_t off;
	uint32_t len;
	uint32_t block; /* of the map */
	/* size of the block: no piece is longer, even if a file has one block twice in a row */
	uint32_t usize;
	uint32_t at_ms;
	uint32_t rank; /* order of first accesses */
};

struct pieces {
	const struct blockmap *map;
	struct trace_builder *builder;
	struct trace_piece *v;
	size_t n, cap, steps;
	uint32_t at_ms; /* time of the range being processed */
	struct error *err;
};

/* ------------------------------------------------------------------- pieces --- */

/* Extend the last piece if `x` continues it. */
static bool extends_last(struct pieces *p, const struct trace_piece *x)
{
	struct trace_piece *last = p->n ? &p->v[p->n - 1] : NULL;

	if (!last || last->path != x->path || last->block != x->block ||
	    last->off + last->len != x->off || last->len + x->len > x->usize)
		return false;
	last->len += x->len;
	return true;
}

static int add_piece(struct pieces *p, struct trace_piece *x)
{
	if (extends_last(p, x))
		return 0;
	if (p->n == PIECES_MAX)
		return -ENOSPC;
	if (array_grow(&p->v, p->n, &p->cap, 1024) < 0)
		return error_nomem(p->err);
	x->rank = (uint32_t)p->n;
	p->v[p->n++] = *x;
	return 0;
}

/* Cut a range of a file at the ends of blocks. */
static int take_range(void *arg, const struct file_range *f)
{
	struct pieces *p = arg;
	struct trace_piece x = { .at_ms = p->at_ms };
	uint64_t voff = f->voff, end = f->voff + f->len;
	int rc;

	if (p->steps++ == STEPS_MAX)
		return -ENOSPC;
	rc = trace_builder_path(p->builder, f->path, &x.path, p->err);
	while (rc == 0 && voff < end) {
		size_t i = blockmap_find(p->map, voff);
		struct block b;
		uint64_t stop;

		if (i == p->map->n_blocks)
			break; /* holes hold no data */
		blockmap_block(p->map, i, &b);
		stop = b.voff + b.usize;
		if (stop <= voff)
			break; /* padding of a page holds no data either */
		if (stop > end)
			stop = end;
		x.off = f->file_off + (voff - f->voff);
		x.len = (uint32_t)(stop - voff);
		x.block = (uint32_t)i;
		x.usize = b.usize;
		rc = add_piece(p, &x);
		voff = stop;
	}
	return rc;
}

static int compare_pieces_by_place(const void *a, const void *b)
{
	const struct trace_piece *x = a, *y = b;

	if (x->path != y->path)
		return strcmp(x->path, y->path);
	if (x->block != y->block)
		return x->block < y->block ? -1 : 1;
	if (x->off != y->off)
		return x->off < y->off ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static int compare_pieces_by_rank(const void *a, const void *b)
{
	const struct trace_piece *x = a, *y = b;

	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Join neighbouring pieces of one file and block; the first access counts. */
static void join_pieces(struct pieces *p)
{
	size_t kept = 0;

	if (!p->n)
		return;
	qsort(p->v, p->n, sizeof(*p->v), compare_pieces_by_place);
	for (size_t i = 0; i < p->n; i++) {
		struct trace_piece *last = kept ? &p->v[kept - 1] : NULL;
		const struct trace_piece *x = &p->v[i];

		if (!last || last->path != x->path || last->block != x->block ||
		    last->off + last->len < x->off ||
		    x->off + x->len - last->off > x->usize) {
			p->v[kept++] = *x;
			continue;
		}
		if (x->off + x->len > last->off + last->len)
			last->len = (uint32_t)(x->off + x->len - last->off);
		if (x->rank < last->rank) {
			last->rank = x->rank;
			last->at_ms = x->at_ms;
		}
	}
	p->n = kept;
	qsort(p->v, p->n, sizeof(*p->v), compare_pieces_by_rank);
}

static int add_entries(const struct pieces *p)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < p->n; i++) {
		const struct trace_piece *x = &p->v[i];
		struct trace_entry e = {
			.path = x->path,
			.off = x->off,
			.len = x->len,
			.at_ms = x->at_ms,
			.confidence = TRACE_CERTAIN,
		};
		struct block b;

		blockmap_block(p->map, x->block, &b);
		e.csize = b.csize;
		e.block = b.digest;
		rc = trace_builder_add(p->builder, &e, p->err);
	}
	return rc;
}

/* Make the pieces of all recorded ranges. -ENOSPC: more than a trace can hold. */
static int fill_pieces(struct pieces *p, const struct record *c,
		       struct file_map *files, uint32_t until_ms)
{
	int rc = 0, more;

	for (size_t i = 0; rc == 0 && i < c->n_ranges; i++) {
		const struct record_range *g = &c->ranges[i];

		if (g->at_ms > until_ms)
			continue;
		p->at_ms = g->at_ms;
		rc = files->ops->at(files, g->page * BLOCK_ALIGN,
				    (uint64_t)g->n * BLOCK_ALIGN, take_range, p,
				    p->err);
	}
	if (rc < 0 && rc != -ENOSPC)
		return rc;
	join_pieces(p);
	more = add_entries(p);
	return more < 0 ? more : rc;
}

int recorder_trace(struct recorder *r, const struct trace_info *info,
		   const struct blockmap *map, struct file_map *files,
		   uint32_t until_ms, struct trace **ret, struct error *err)
{
	struct pieces p = { .map = map, .err = err };
	AUTO(trace_builder) b = NULL;
	struct record c;
	bool truncated;
	uint32_t window;
	int rc = recorder_snapshot(r, &c, err);

	if (rc < 0)
		return rc;
	window = until_ms < c.now_ms ? until_ms : c.now_ms;
	truncated = c.truncated;
	rc = trace_builder_new(info, &b, err);
	if (rc == 0) {
		p.builder = b;
		rc = fill_pieces(&p, &c, files, until_ms);
	}
	free(p.v);
	record_fini(&c);
	if (rc == -ENOSPC) {
		truncated = true;
		rc = 0;
	}
	if (rc == 0)
		rc = trace_builder_finish(steal_ptr(&b), ret, err);
	if (rc == 0) {
		(*ret)->info.window_ms = window;
		(*ret)->info.truncated = truncated;
	}
	return rc;
}

/* ------------------------------------------------------------------- blocks --- */

struct block_set {
	uint8_t *bits;
	uint32_t *v;
	size_t n;
};

static void add_block(struct block_set *s, size_t i)
{
	if (s->bits[i / 8] & 1u << i % 8)
		return;
	s->bits[i / 8] |= (uint8_t)(1u << i % 8);
	s->v[s->n++] = (uint32_t)i;
}

static void touch_blocks(struct block_set *s, const struct blockmap *map,
			 const struct record_range *g)
{
	uint64_t voff = g->page * BLOCK_ALIGN;
	uint64_t end = voff + (uint64_t)g->n * BLOCK_ALIGN;

	while (voff < end) {
		size_t i = blockmap_find(map, voff);
		struct block b;

		voff += BLOCK_ALIGN;
		if (i == map->n_blocks)
			continue;
		add_block(s, i);
		blockmap_block(map, i, &b);
		if (b.voff + b.usize > voff)
			voff = (b.voff + b.usize + BLOCK_ALIGN - 1) /
			       BLOCK_ALIGN * BLOCK_ALIGN;
	}
}

/* Drop misses that are not blocks of this map. */
static size_t drop_unknown_blocks(const struct blockmap *map, uint32_t *v,
				  size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		if (v[i] < map->n_blocks)
			v[kept++] = v[i];
	return kept;
}

int recorder_blocks(struct recorder *r, const struct blockmap *map,
		    uint32_t **ret_touched, size_t *ret_n_touched,
		    uint32_t **ret_missed, size_t *ret_n_missed,
		    struct error *err)
{
	struct block_set s = { .bits = calloc(map->n_blocks / 8 + 1, 1) };
	struct record c;
	int rc = recorder_snapshot(r, &c, err);

	s.v = calloc(map->n_blocks + 1, sizeof(*s.v));
	if (rc == 0 && (!s.bits || !s.v)) {
		record_fini(&c);
		rc = error_nomem(err);
	}
	if (rc == 0) {
		for (size_t i = 0; i < c.n_ranges; i++)
			touch_blocks(&s, map, &c.ranges[i]);
		*ret_touched = steal_ptr(&s.v);
		*ret_n_touched = s.n;
		*ret_n_missed = drop_unknown_blocks(map, c.missed, c.n_missed);
		*ret_missed = steal_ptr(&c.missed);
		record_fini(&c);
	}
	free(s.bits);
	free(s.v);
	return rc;
}
