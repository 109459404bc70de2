// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/unit_map.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int refuse_large(struct error *err)
{
	return error_set(err, EFBIG, "a file has at most %" PRIu64 " TiB",
			 (uint64_t)CKPT_SIZE_MAX / (1024 * GIB));
}

static const struct unit_place *unit_at(const struct unit_map *f, uint64_t u)
{
	static const struct unit_place hole = { .len = 0 };
	const struct unit_place *page =
		u / MAP_PAGE < f->n_pages ? f->pages[u / MAP_PAGE] : NULL;

	return page ? &page[u % MAP_PAGE] : &hole;
}

static int reserve_pages(struct unit_map *f, uint64_t n, struct error *err)
{
	struct unit_place **more;

	if (n <= f->n_pages)
		return 0;
	more = realloc(f->pages, n * sizeof(struct unit_place *));
	if (!more)
		return error_nomem(err);
	memset(more + f->n_pages, 0,
	       (n - f->n_pages) * sizeof(struct unit_place *));
	f->pages = more;
	f->n_pages = n;
	return 0;
}

/* Get the entry of a unit, allocating its page if needed. */
static int get_or_add_unit(struct unit_map *f, uint64_t u,
			   struct unit_place **ret, struct error *err)
{
	struct unit_place **page;
	int rc;

	if (u >= CKPT_SIZE_MAX / f->unit)
		return refuse_large(err);
	rc = reserve_pages(f, u / MAP_PAGE + 1, err);
	if (rc < 0)
		return rc;
	page = &f->pages[u / MAP_PAGE];
	if (!*page)
		*page = calloc(MAP_PAGE, sizeof(**page));
	if (!*page)
		return error_nomem(err);
	if (f->n_units <= u)
		f->n_units = u + 1;
	*ret = &(*page)[u % MAP_PAGE];
	return 0;
}

int unit_map_add_segment(struct unit_map *f, const struct ckpt_segment *s,
			 struct error *err)
{
	if (f->n_segments == f->cap_segments) {
		size_t cap = f->cap_segments ? f->cap_segments * 2 : 4;
		struct ckpt_segment *more =
			realloc(f->segments, cap * sizeof(*more));

		if (!more)
			return error_nomem(err);
		f->segments = more;
		f->cap_segments = cap;
	}
	f->segments[f->n_segments] = *s;
	f->segments[f->n_segments++].length = 0;
	return 0;
}

static int add_base_segment(struct unit_map *f, const struct manifest *m,
			    const struct ckpt_segment *s, uint32_t index,
			    struct error *err)
{
	const uint64_t first = s->start / f->unit;
	const uint64_t n = (s->length + f->unit - 1) / f->unit;
	const uint32_t *crcs = m->crcs + s->first_chunk;

	for (uint64_t i = 0; i < n; i++) {
		struct unit_place *p;
		uint64_t left = s->length - i * f->unit;
		int rc = get_or_add_unit(f, first + i, &p, err);

		if (rc == 0 && s->place + i > UINT32_MAX)
			rc = refuse_large(err);
		if (rc < 0)
			return rc;
		*p = (struct unit_place){
			.segment = index,
			.place = (uint32_t)(s->place + i),
			.len = (uint32_t)(left < f->unit ? left : f->unit),
		};
		for (uint32_t at = 0, k = 0; at < p->len;
		     at += MAP_CHUNK_SIZE, k++)
			p->crcs[k] = *crcs++;
	}
	return 0;
}

int unit_map_init(struct unit_map *f, const struct manifest *base,
		  uint32_t unit_chunks, struct error *err)
{
	AUTO_FREE size_t *same = NULL;
	AUTO_FREE uint32_t *index = NULL;
	int rc = 0;

	*f = (struct unit_map){ .unit = unit_chunks * MAP_CHUNK_SIZE };
	if (!base)
		return 0;
	if (base->chunk_size != MAP_CHUNK_SIZE ||
	    base->unit_chunks != unit_chunks || unit_chunks > MAP_UNIT_CHUNKS)
		return error_set(err, EOPNOTSUPP,
				 "its units are of another size: it can be "
				 "replaced, not changed");
	rc = manifest_same_segments(base, &same, err);
	index = calloc(base->n_segments + 1, sizeof(*index));
	if (rc == 0 && !index)
		rc = error_nomem(err);
	for (size_t i = 0; i < base->n_segments && rc == 0; i++) {
		const struct ckpt_segment *s = &base->segments[i];

		index[i] = (uint32_t)f->n_segments;
		if (same[i] == i)
			rc = unit_map_add_segment(f, s, err);
		else
			index[i] = index[same[i]];
		if (rc == 0)
			rc = add_base_segment(f, base, s, index[i], err);
	}
	if (rc < 0)
		unit_map_fini(f);
	return rc;
}

void unit_map_fini(struct unit_map *f)
{
	unit_map_cut(f, 0);
	free(f->segments);
	free(f->pages);
	*f = (struct unit_map){ .unit = f->unit };
}

int unit_map_add_unit(struct unit_map *f, uint64_t u, uint32_t len,
		      uint32_t *ret_place, struct error *err)
{
	struct ckpt_segment *s = &f->segments[f->n_segments - 1];
	struct unit_place *p;
	int rc = get_or_add_unit(f, u, &p, err);

	if (rc == 0 && s->length / f->unit >= UINT32_MAX)
		rc = refuse_large(err);
	if (rc < 0)
		return rc;
	*ret_place = (uint32_t)(s->length / f->unit);
	s->length += len;
	*p = (struct unit_place){ .segment = (uint32_t)f->n_segments - 1,
				  .place = *ret_place,
				  .len = len };
	return 0;
}

int unit_map_name_unit(struct unit_map *f, uint64_t u,
		       const struct unit_place *at, struct error *err)
{
	struct unit_place *p;
	int rc = get_or_add_unit(f, u, &p, err);

	if (rc == 0)
		*p = *at;
	return rc;
}

void unit_map_set_crcs(struct unit_map *f, uint64_t u, uint32_t place,
		       const uint32_t crcs[MAP_UNIT_CHUNKS])
{
	const struct unit_place *p = unit_at(f, u);

	if (p->len && p->segment == f->n_segments - 1 && p->place == place)
		memcpy(f->pages[u / MAP_PAGE][u % MAP_PAGE].crcs, crcs,
		       sizeof(p->crcs));
}

const struct unit_place *unit_map_find(const struct unit_map *f, uint64_t u)
{
	const struct unit_place *p = unit_at(f, u);

	return p->len ? p : NULL;
}

void unit_map_cut(struct unit_map *f, uint64_t n)
{
	const uint64_t first = (n + MAP_PAGE - 1) / MAP_PAGE;

	if (n >= f->n_units)
		return;
	for (uint64_t i = first; i < f->n_pages; i++)
		free(steal_ptr(&f->pages[i]));
	for (uint64_t u = n; u < first * MAP_PAGE && u < f->n_units; u++)
		if (f->pages[u / MAP_PAGE])
			f->pages[u / MAP_PAGE][u % MAP_PAGE].len = 0;
	f->n_units = n;
}

void unit_map_column_ends(const struct unit_map *f, size_t n,
			  uint64_t (*ret)[COLUMNS_MAX])
{
	for (uint64_t u = 0; u < f->n_units; u++) {
		const struct unit_place *p = unit_at(f, u);
		const struct ckpt_segment *s;
		uint64_t *end, to;

		if (!p->len || p->segment >= n)
			continue;
		s = &f->segments[p->segment];
		end = &ret[p->segment][(p->place + s->rotation) % s->columns];
		to = p->place / s->columns * f->unit + p->len;
		if (*end < to)
			*end = to;
	}
}

/* --------------------------------------------------------------------- manifest --- */

/* Is the unit stored directly behind the unit before it? */
static bool is_stored_behind_previous(const struct unit_map *f, uint64_t u)
{
	const struct unit_place *a = u ? unit_at(f, u - 1) : NULL;
	const struct unit_place *b = unit_at(f, u);

	return a && a->len == f->unit && a->segment == b->segment &&
	       a->place + 1 == b->place;
}

/* The length of a unit; chunks behind the end of a file of this size do not count. */
static uint32_t get_mapped_unit_length(const struct unit_map *f, uint64_t u,
				       uint64_t size)
{
	const uint32_t len = unit_at(f, u)->len;
	uint64_t left;

	if (u * f->unit >= size)
		return 0;
	left = round_up(size - u * f->unit, MAP_CHUNK_SIZE);
	return left < len ? (uint32_t)left : len;
}

static uint32_t chunks_of(uint32_t len)
{
	return (len + MAP_CHUNK_SIZE - 1) / MAP_CHUNK_SIZE;
}

int unit_map_fill(const struct unit_map *f, struct manifest *m,
		  struct error *err)
{
	uint64_t n_runs = 0, n_chunks = 0;
	AUTO_FREE struct ckpt_segment *runs = NULL;
	AUTO_FREE uint32_t *crcs = NULL;
	size_t run = 0;

	for (uint64_t u = 0; u < f->n_units; u++) {
		const uint32_t len = get_mapped_unit_length(f, u, m->size);

		n_chunks += chunks_of(len);
		n_runs += len && !is_stored_behind_previous(f, u);
	}
	if (n_runs > SEGMENTS_MAX)
		return error_set(err, EFBIG,
				 "the file was written in %" PRIu64
				 " pieces out of order, and %u are the most: "
				 "write it from its beginning to its end",
				 n_runs, SEGMENTS_MAX);
	runs = calloc(n_runs + 1, sizeof(*runs));
	crcs = calloc(n_chunks + 1, sizeof(*crcs));
	if (!runs || !crcs)
		return error_nomem(err);
	n_chunks = 0;
	for (uint64_t u = 0; u < f->n_units; u++) {
		const struct unit_place *p = unit_at(f, u);
		const uint32_t len = get_mapped_unit_length(f, u, m->size);

		if (!len)
			continue;
		if (!is_stored_behind_previous(f, u)) {
			runs[run] = f->segments[p->segment];
			runs[run].start = u * f->unit;
			runs[run].place = p->place;
			runs[run].length = 0;
			runs[run++].first_chunk = n_chunks;
		}
		runs[run - 1].length += len;
		memcpy(crcs + n_chunks, p->crcs,
		       chunks_of(len) * sizeof(*crcs));
		n_chunks += chunks_of(len);
	}
	free(m->segments);
	free(m->crcs);
	m->segments = steal_ptr(&runs);
	m->crcs = steal_ptr(&crcs);
	m->n_segments = n_runs;
	m->n_chunks = n_chunks;
	return 0;
}
