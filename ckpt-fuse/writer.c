// SPDX-License-Identifier: Apache-2.0
/* Writes files: columns in parallel. writer_open.c begins writers, commit.c commits them. */
#include "ckpt-fuse/writer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/crc32c.h"
#include "common/side_by_side.h"

int writer_new_segment(struct ckpt_segment *s, uint32_t columns,
		       struct error *err)
{
	uint32_t random;

	*s = (struct ckpt_segment){ .columns = columns };
	if (getrandom(s->id, sizeof(s->id), 0) != (ssize_t)sizeof(s->id))
		return error_errno(err, errno, "random bytes");
	memcpy(&random, s->id, sizeof(random));
	s->rotation = random % columns;
	return 0;
}

/* Set the first unit of each column. */
void writer_begin_columns(struct ckpt_writer *w)
{
	for (uint32_t c = 0; c < ckpt_writer_columns(w); c++)
		for (w->next_unit[c] = 0;
		     ckpt_writer_column(w, w->next_unit[c]) != c;)
			w->next_unit[c]++;
}

uint64_t ckpt_writer_unit(const struct ckpt_writer *w)
{
	return manifest_unit(w->manifest);
}

uint32_t ckpt_writer_columns(const struct ckpt_writer *w)
{
	if (w->is_growing && !w->segment)
		return 0;
	return writer_is_plain(w) ? 1 : w->segment->columns;
}

uint32_t ckpt_writer_column(const struct ckpt_writer *w, uint64_t u)
{
	if (writer_is_plain(w))
		return 0;
	return (uint32_t)((u + w->segment->rotation) % w->segment->columns);
}

void ckpt_writer_set_attr(struct ckpt_writer *w, const struct ckpt_attr *attr)
{
	w->manifest->attr = *attr;
	w->manifest->attr.mode &= 07777;
}

int ckpt_writer_set_xattrs(struct ckpt_writer *w, const struct buf *list,
			   struct error *err)
{
	struct buf *x = &w->manifest->xattrs;

	buf_reset(x);
	return list->len && buf_append(x, list->data, list->len) < 0
		       ? error_nomem(err)
		       : 0;
}

/* -------------------------------------------------------------------- writing --- */

int writer_column_put(struct ckpt_writer *w, uint32_t c, struct error *err)
{
	const struct manifest *m = w->manifest;
	struct object_put_options o = { .size = m->size };
	char name[COLUMN_NAME_MAX];

	if (w->puts[c])
		return 0;
	if (writer_is_plain(w)) {
		const struct ckpt_version *v = w->version;

		if (v)
			o.condition = *v->plain ? OBJECT_MATCH : OBJECT_NEW;
		o.tag = v ? v->plain : NULL;
		return object_put_open(w->store, w->path, &o, &w->puts[c], err);
	}
	o.size = w->is_growing ? 0 : segment_column_size(m, w->segment, c);
	o.condition = OBJECT_NEW;
	column_name(w->segment, c, name);
	return object_put_open(w->store, name, &o, &w->puts[c], err);
}

static int open_put(void *arg, unsigned int c, struct error *err)
{
	return writer_column_put(arg, c, err);
}

int writer_open_puts(struct ckpt_writer *w, struct error *err)
{
	return side_by_side(ckpt_writer_columns(w), open_put, w, err);
}

static void set_crcs(struct ckpt_writer *w, uint64_t u, const char *data,
		     uint64_t len)
{
	struct manifest *m = w->manifest;
	uint64_t chunk = u * m->unit_chunks;

	for (uint64_t at = 0; at < len; at += m->chunk_size, chunk++) {
		uint64_t n =
			len - at < m->chunk_size ? len - at : m->chunk_size;

		m->crcs[chunk] = crc32c(0, data + at, n);
	}
}

int writer_put_unit(struct ckpt_writer *w, uint64_t u, const void *data,
		    size_t len, struct error *err)
{
	uint32_t c = ckpt_writer_column(w, u);
	int rc;

	if (u != w->next_unit[c])
		return error_set(err, EINVAL,
				 "unit %" PRIu64 " of '%.200s' is not the next "
				 "of its column",
				 u, w->path);
	rc = writer_column_put(w, c, err);
	if (rc == 0)
		rc = object_put_write(w->puts[c], data, len, err);
	if (rc == 0)
		w->next_unit[c] += ckpt_writer_columns(w);
	return rc;
}

void *writer_unit_room(struct ckpt_writer *w, uint64_t u, size_t len)
{
	struct object_put *p = w->puts[ckpt_writer_column(w, u)];

	return p ? object_put_room(p, len) : NULL;
}

int ckpt_write_unit(struct ckpt_writer *w, uint64_t u, const void *data,
		    struct error *err)
{
	uint64_t unit = manifest_unit(w->manifest), size = w->manifest->size;
	uint64_t len;

	if (w->is_growing || u * unit >= size)
		return error_set(err, EINVAL, "'%.200s' has no unit %" PRIu64,
				 w->path, u);
	len = size - u * unit < unit ? size - u * unit : unit;
	if (!writer_is_plain(w))
		set_crcs(w, u, data, len);
	return writer_put_unit(w, u, data, len, err);
}

/* ---------------------------------------------------------------------- the end --- */

static int commit_column(void *arg, unsigned int c, struct error *err)
{
	struct ckpt_writer *w = arg;
	int rc;

	/* The column may have no units, if the file has fewer units than columns. */
	if (!w->puts[c])
		return 0;
	rc = object_put_commit(w->puts[c], NULL, err);
	if (rc < 0)
		return rc;
	/* Free the put now, because the manifest needs its memory. */
	object_put_free(w->puts[c]);
	w->puts[c] = NULL;
	return 0;
}

int writer_end_column(struct ckpt_writer *w, uint32_t c, struct error *err)
{
	if (writer_is_plain(w))
		return 0;
	atomic_store(&w->is_begun, true);
	return commit_column(w, c, err);
}

int writer_commit_columns(struct ckpt_writer *w, struct error *err)
{
	atomic_store(&w->is_begun, true);
	return side_by_side(ckpt_writer_columns(w), commit_column, w, err);
}

/* Remove the columns of a file that is given up; ckpt_gc() removes those that fail here. */
static void remove_segment_columns(struct ckpt_writer *w,
				   const struct ckpt_segment *s)
{
	char name[COLUMN_NAME_MAX];

	for (uint32_t c = 0; c < s->columns; c++) {
		struct error ignored = ERROR_INIT;

		if (!segment_has_column(w->manifest, s, c))
			continue;
		column_name(s, c, name);
		(void)!name_remove(w->store, name, &ignored);
	}
}

/* Remove all columns, committed or not, since an error may have come after the commit. */
static void remove_all_columns(struct ckpt_writer *w)
{
	if (w->is_sent)
		return;
	if (w->segment && !w->is_growing && w->is_begun)
		remove_segment_columns(w, w->segment);
	for (size_t i = w->n_base; i < w->map.n_segments; i++)
		if (i + 1 < w->map.n_segments || !w->segment || w->is_begun)
			remove_segment_columns(w, &w->map.segments[i]);
}

void ckpt_writer_free(struct ckpt_writer *w)
{
	if (!w)
		return;
	for (uint32_t c = 0; c < COLUMNS_MAX; c++)
		object_put_free(w->puts[c]);
	remove_all_columns(w);
	unit_map_fini(&w->map);
	manifest_free(w->manifest);
	(void)pthread_mutex_destroy(&w->lock);
	free(w->path);
	free(w);
}
