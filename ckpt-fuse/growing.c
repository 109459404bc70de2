// SPDX-License-Identifier: Apache-2.0
/* Files whose units are written in any order: docs/checkpoints.md, "Writing". */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt-fuse/parts.h"
#include "ckpt-fuse/writer.h"
#include "common/crc32c.h"
#include "common/mutex.h"

int writer_set_growing(struct ckpt_writer *w,
		       const struct ckpt_write_options *o, struct error *err)
{
	const struct manifest *base =
		o->base ? ckpt_file_manifest(o->base) : NULL;
	const uint32_t unit_chunks =
		o->unit_chunks ? o->unit_chunks : MAP_UNIT_CHUNKS;
	int rc = manifest_new(0, 0, &w->manifest, err);

	if (rc < 0)
		return rc;
	if (o->base && !base)
		return error_set(err, EOPNOTSUPP,
				 "'%.200s' is a plain object: it can be "
				 "replaced, not changed",
				 w->path);
	rc = unit_map_init(&w->map, base, unit_chunks, err);
	if (rc < 0)
		return error_wrap(err, rc, "'%.200s'", w->path);
	w->is_growing = true;
	w->n_base = w->map.n_segments;
	w->base_generation = base ? base->generation : 0;
	w->manifest->chunk_size = MAP_CHUNK_SIZE;
	w->manifest->unit_chunks = unit_chunks;
	w->manifest->size = base ? base->size : 0;
	ckpt_writer_set_attr(w, &o->attr);
	return 0;
}

int writer_fill_manifest(struct ckpt_writer *w, struct error *err)
{
	AUTO_UNLOCK held = mutex_hold(&w->lock);

	return unit_map_fill(&w->map, w->manifest, err);
}

bool writer_is_named(const struct ckpt_writer *w, const struct manifest *m)
{
	if (!w->is_growing)
		return w->segment && manifest_has_segment(m, w->segment);
	for (size_t i = w->n_base; i < w->map.n_segments; i++)
		if (manifest_has_segment(m, &w->map.segments[i]))
			return true;
	return false;
}

int ckpt_writer_begin_segment(struct ckpt_writer *w, uint32_t columns,
			      struct error *err)
{
	int rc;

	if (columns < 1 || columns > COLUMNS_MAX)
		return error_set(err, EINVAL, "a file has 1 to %u columns",
				 COLUMNS_MAX);
	rc = writer_new_segment(&w->growing, columns, err);
	if (rc < 0)
		return rc;
	(void)pthread_mutex_lock(&w->lock);
	rc = unit_map_add_segment(&w->map, &w->growing, err);
	(void)pthread_mutex_unlock(&w->lock);
	if (rc < 0)
		return rc;
	w->segment = &w->growing;
	w->is_begun = false;
	writer_begin_columns(w);
	return 0;
}

static struct ckpt_segment segment_of(const struct ckpt_columns *c)
{
	struct ckpt_segment s = { .columns = c->n, .rotation = c->rotation };

	memcpy(s.id, c->id, sizeof(s.id));
	return s;
}

static bool is_segment_of_columns(const struct ckpt_segment *s,
				  const struct ckpt_columns *c)
{
	return s->columns == c->n && s->rotation == c->rotation &&
	       memcmp(s->id, c->id, sizeof(s->id)) == 0;
}

int ckpt_writer_name_unit(struct ckpt_writer *w, uint64_t u,
			  const struct ckpt_place *at, struct error *err)
{
	const struct ckpt_segment s = segment_of(&at->columns);
	struct unit_place p = { .place = at->place, .len = at->len };
	size_t i = w->n_base;
	int rc = 0;

	/* Segments of the base must be added before the writer's own. */
	if (w->map.n_segments != w->n_base || at->len > w->map.unit)
		return error_set(err, EINVAL, "unit %" PRIu64 " is named late",
				 u);
	while (i &&
	       !is_segment_of_columns(&w->map.segments[i - 1], &at->columns))
		i--;
	if (!i) {
		rc = unit_map_add_segment(&w->map, &s, err);
		if (rc < 0)
			return rc;
		i = ++w->n_base;
	}
	p.segment = (uint32_t)i - 1;
	memcpy(p.crcs, at->crcs, sizeof(p.crcs));
	return unit_map_name_unit(&w->map, u, &p, err);
}

int ckpt_writer_check_named(struct ckpt_writer *w, struct error *err)
{
	const int rc = writer_look_at_base(w, BASE_MARK_REFUSED, err);

	return rc == -ENOENT ? error_set(err, ENOENT,
					 "columns of an earlier file are gone, "
					 "or may go")
			     : rc;
}

bool ckpt_writer_in_segment(const struct ckpt_writer *w)
{
	return w->segment != NULL;
}

int ckpt_writer_add(struct ckpt_writer *w, uint64_t u, size_t len,
		    uint32_t *ret_place, struct error *err)
{
	AUTO_UNLOCK held = mutex_hold(&w->lock);

	return unit_map_add_unit(&w->map, u, (uint32_t)len, ret_place, err);
}

int ckpt_writer_room(struct ckpt_writer *w, uint32_t place, size_t len,
		     void **ret, struct error *err)
{
	int rc = writer_column_put(w, ckpt_writer_column(w, place), err);

	*ret = rc < 0 ? NULL : writer_unit_room(w, place, len);
	return rc;
}

int ckpt_write_placed(struct ckpt_writer *w, uint64_t u, uint32_t place,
		      const void *data, size_t len, struct error *err)
{
	uint32_t crcs[MAP_UNIT_CHUNKS] = { 0 };
	const char *from = data;
	int rc;

	for (size_t at = 0; at < len; at += MAP_CHUNK_SIZE)
		crcs[at / MAP_CHUNK_SIZE] =
			crc32c(0, from + at,
			       len - at < MAP_CHUNK_SIZE ? len - at
							 : MAP_CHUNK_SIZE);
	rc = writer_put_unit(w, place, data, len, err);
	if (rc < 0)
		return rc;
	(void)pthread_mutex_lock(&w->lock);
	unit_map_set_crcs(&w->map, u, place, crcs);
	(void)pthread_mutex_unlock(&w->lock);
	return 0;
}

int ckpt_writer_end_segment(struct ckpt_writer *w, struct error *err)
{
	int rc = w->segment ? writer_commit_columns(w, err) : 0;

	if (rc == 0)
		w->segment = NULL;
	return rc;
}

/* Called by the only thread that changes the map, so no lock is needed. */
size_t ckpt_writer_stored(const struct ckpt_writer *w, uint64_t u)
{
	const struct unit_place *p = unit_map_find(&w->map, u);

	return p ? p->len : 0;
}

bool ckpt_writer_can_read(const struct ckpt_writer *w, uint64_t u)
{
	const struct unit_place *p = unit_map_find(&w->map, u);

	return !p || !w->segment || p->segment != w->map.n_segments - 1;
}

/* Read through a temporary file that has only this unit. */
int ckpt_writer_read(struct ckpt_writer *w, uint64_t u, void *buf,
		     struct error *err)
{
	const struct unit_place *p = unit_map_find(&w->map, u);
	AUTO(manifest) m = NULL;
	struct ckpt_file *f;
	int rc;

	if (!p)
		return 0;
	rc = manifest_new(1, MAP_UNIT_CHUNKS, &m, err);
	if (rc < 0)
		return rc;
	m->chunk_size = MAP_CHUNK_SIZE;
	m->unit_chunks = w->manifest->unit_chunks;
	m->size = p->len;
	m->segments[0] = w->map.segments[p->segment];
	m->segments[0].start = 0;
	m->segments[0].length = p->len;
	m->segments[0].place = p->place;
	m->segments[0].first_chunk = 0;
	memcpy(m->crcs, p->crcs, sizeof(p->crcs));
	rc = ckpt_open_manifest(w->store, w->path, steal_ptr(&m), &f, err);
	if (rc < 0)
		return rc;
	rc = ckpt_read(f, 0, buf, p->len, 0, err);
	ckpt_close(f);
	return rc;
}

void ckpt_writer_cut(struct ckpt_writer *w, uint64_t n)
{
	(void)pthread_mutex_lock(&w->lock);
	unit_map_cut(&w->map, n);
	(void)pthread_mutex_unlock(&w->lock);
}

int ckpt_writer_set_file(struct ckpt_writer *w, const char *path, uint64_t size,
			 struct error *err)
{
	char *copy = strdup(path);

	if (!copy)
		return error_nomem(err);
	free(w->path);
	w->path = copy;
	w->manifest->size = size;
	return manifest_name(path, &w->name, err);
}

void ckpt_writer_set_version(struct ckpt_writer *w,
			     struct ckpt_version *version)
{
	w->version = version && version->is_known ? version : NULL;
}
