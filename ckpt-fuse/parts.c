// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/parts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt-fuse/writer.h"

int ckpt_writer_give_part(struct ckpt_writer *w, uint64_t size, struct buf *ret,
			  struct error *err)
{
	int rc = ckpt_writer_end_segment(w, err);

	w->manifest->size = size;
	if (rc == 0)
		rc = writer_fill_manifest(w, err);
	if (rc == 0)
		rc = manifest_encode(w->manifest, ret, err);
	if (rc == 0)
		w->is_sent = true;
	return rc;
}

/* ------------------------------------------------------------------------ places --- */

_Static_assert(CKPT_PARTS_PIECES == SEGMENTS_MAX, "pieces are segments");
_Static_assert(sizeof(((struct ckpt_columns *)0)->id) == SEGMENT_ID, "IDs");
_Static_assert(CKPT_PART_CHUNK == MAP_CHUNK_SIZE &&
		       CKPT_PART_UNIT == MAP_UNIT_CHUNKS * MAP_CHUNK_SIZE,
	       "units");

static struct ckpt_place place_of(const struct unit_map *map,
				  const struct unit_place *p)
{
	const struct ckpt_segment *s = &map->segments[p->segment];
	struct ckpt_place at = { .columns = { .n = s->columns,
					      .rotation = s->rotation },
				 .place = p->place,
				 .len = p->len };

	memcpy(at.columns.id, s->id, sizeof(at.columns.id));
	memcpy(at.crcs, p->crcs, sizeof(at.crcs));
	return at;
}

int ckpt_part_places(const struct buf *part, ckpt_place_fn *fn, void *arg,
		     struct error *err)
{
	AUTO(manifest) m = NULL;
	AUTO_FINI(unit_map) map = { .n_units = 0 };
	int rc = manifest_decode(part->data, part->len, &m, err);

	if (rc == 0)
		rc = unit_map_init(&map, m, m->unit_chunks, err);
	for (uint64_t u = 0; u < map.n_units && rc == 0; u++) {
		const struct unit_place *p = unit_map_find(&map, u);
		const struct ckpt_place at =
			p ? place_of(&map, p) : (struct ckpt_place){ .len = 0 };

		if (p)
			rc = fn(arg, u, &at, err);
	}
	return rc;
}

/* ----------------------------------------------------------------------- merging --- */

struct part_merge {
	struct manifest *all;
	size_t n_segments;
	uint64_t n_chunks;
};

static int compare_starts(const void *a, const void *b)
{
	const struct ckpt_segment *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static int decode_part(const struct buf *part, uint64_t size, uint32_t unit,
		       struct manifest **ret, struct error *err)
{
	AUTO(manifest) m = NULL;
	int rc = manifest_decode(part->data, part->len, &m, err);

	if (rc < 0)
		return -EBADMSG;
	if (m->size == size && manifest_unit(m) == unit &&
	    m->chunk_size == MAP_CHUNK_SIZE) {
		*ret = steal_ptr(&m);
		return 0;
	}
	return error_set(err, EBADMSG, "a part is of another file");
}

int ckpt_check_part(const struct buf *part, uint64_t size, uint32_t unit,
		    struct error *err)
{
	AUTO(manifest) m = NULL;

	return decode_part(part, size, unit, &m, err);
}

static void append_part_to_manifest(struct part_merge *g,
				    const struct manifest *m)
{
	for (size_t i = 0; i < m->n_segments; i++) {
		struct ckpt_segment s = m->segments[i];

		s.first_chunk += g->n_chunks;
		g->all->segments[g->n_segments++] = s;
	}
	memcpy(g->all->crcs + g->n_chunks, m->crcs,
	       m->n_chunks * sizeof(*m->crcs));
	g->n_chunks += m->n_chunks;
}

/* Sort the checksums by the order of the segments, as manifests require. */
static int sort_segments_by_start(struct manifest *m, struct error *err)
{
	uint32_t *crcs = calloc(m->n_chunks + 1, sizeof(*crcs));
	uint64_t at = 0;

	if (!crcs)
		return error_nomem(err);
	qsort(m->segments, m->n_segments, sizeof(*m->segments), compare_starts);
	for (size_t i = 0; i < m->n_segments; i++) {
		struct ckpt_segment *s = &m->segments[i];
		const uint64_t n = segment_chunks(m, s);

		memcpy(crcs + at, m->crcs + s->first_chunk, n * sizeof(*crcs));
		s->first_chunk = at;
		at += n;
	}
	free(m->crcs);
	m->crcs = crcs;
	return 0;
}

static int decode_parts(const struct ckpt_file_parts *p,
			struct manifest **parts, size_t *ret_segments,
			uint64_t *ret_chunks, struct error *err)
{
	int rc = 0;

	*ret_segments = 0;
	*ret_chunks = 0;
	for (size_t i = 0; i < p->n && rc == 0; i++) {
		rc = decode_part(&p->parts[i], p->size, p->unit, &parts[i],
				 err);
		if (rc < 0)
			return error_wrap(err, -EBADMSG, "part %zu", i);
		*ret_segments += parts[i]->n_segments;
		*ret_chunks += parts[i]->n_chunks;
	}
	return rc;
}

/* Merge the parts into one manifest, and encode and decode it, which detects overlapping
 * segments. */
static int merge_parts(const struct ckpt_file_parts *p, struct manifest **parts,
		       struct manifest **ret, struct error *err)
{
	AUTO(manifest) all = NULL;
	struct part_merge g = { .n_segments = 0 };
	AUTO_BUF text = BUF_INIT;
	size_t n_segments;
	uint64_t n_chunks;
	int rc = decode_parts(p, parts, &n_segments, &n_chunks, err);

	if (rc == 0)
		rc = manifest_new(n_segments, n_chunks, &all, err);
	if (rc < 0)
		return rc;
	all->chunk_size = MAP_CHUNK_SIZE;
	all->unit_chunks = p->unit / MAP_CHUNK_SIZE;
	all->size = p->size;
	g.all = all;
	for (size_t i = 0; i < p->n; i++)
		append_part_to_manifest(&g, parts[i]);
	all->n_segments = n_segments;
	all->n_chunks = n_chunks;
	rc = sort_segments_by_start(all, err);
	if (rc == 0)
		rc = manifest_encode(all, &text, err);
	return rc < 0 ? rc : manifest_decode(text.data, text.len, ret, err);
}

/* Check that parts have all units: a missing one would read as zeros. */
static int check_units(const struct unit_map *map,
		       const struct ckpt_file_parts *p, struct error *err)
{
	const uint64_t n = (p->size + p->unit - 1) / p->unit;

	for (uint64_t u = 0; u < n; u++) {
		const struct unit_place *at = unit_map_find(map, u);
		const uint32_t len = at ? at->len : 0;

		if (len != p->stored[u])
			return error_set(err, EBADMSG,
					 "unit %" PRIu64 " has %" PRIu32
					 " bytes in the parts, not %" PRIu32,
					 u, len, p->stored[u]);
	}
	return 0;
}

/* ---------------------------------------------------------------------- the commit --- */

/* Present the segments to the writer as those of a base file, so that it can check that their
 * columns still exist. */
static int set_base(struct ckpt_writer *w, const struct manifest *m,
		    struct error *err)
{
	int rc;

	unit_map_fini(&w->map);
	rc = unit_map_init(&w->map, m, m->unit_chunks, err);
	w->n_base = w->map.n_segments;
	w->is_base_gone = true;
	return rc;
}

static int set_parts(struct ckpt_writer *w, const struct manifest *m,
		     const struct ckpt_file_parts *p, struct error *err)
{
	int rc = set_base(w, m, err);

	if (rc < 0)
		return rc;
	w->manifest->size = p->size;
	rc = check_units(&w->map, p, err);
	if (rc == 0 && p->xattrs)
		rc = ckpt_writer_set_xattrs(w, p->xattrs, err);
	return rc;
}

int ckpt_commit_parts(struct object_store *s, const char *path,
		      const struct ckpt_file_parts *p, struct error *err)
{
	const struct ckpt_write_options o = { .size = CKPT_SIZE_UNKNOWN,
					      .unit_chunks =
						      p->unit / MAP_CHUNK_SIZE,
					      .attr = p->attr,
					      .version = p->version };
	AUTO_FREE struct manifest **parts =
		(struct manifest **)calloc(p->n + 1, sizeof(*parts));
	AUTO(ckpt_writer) w = NULL;
	AUTO(manifest) m = NULL;
	int rc;

	if (!parts)
		return error_nomem(err);
	rc = merge_parts(p, parts, &m, err);
	for (size_t i = 0; i < p->n; i++)
		manifest_free(parts[i]);
	if (rc == 0)
		rc = ckpt_write_open(s, path, &o, &w, err);
	if (rc == 0)
		rc = set_parts(w, m, p, err);
	if (rc == 0)
		rc = ckpt_commit(w, NULL, err);
	return rc;
}

int ckpt_check_columns(struct object_store *s, const char *path,
		       struct error *err)
{
	const struct ckpt_write_options o = { .size = CKPT_SIZE_UNKNOWN };
	AUTO(ckpt_writer) w = NULL;
	AUTO(manifest) m = NULL;
	int rc = ckpt_write_open(s, path, &o, &w, err);

	if (rc == 0)
		rc = manifest_load(s, w->name.s, &m, err);
	if (rc == 0)
		rc = set_base(w, m, err);
	return rc < 0 ? rc : writer_look_at_base(w, BASE_MARK_TAKEN, err);
}
