// SPDX-License-Identifier: Apache-2.0
/* Writes of files: columns side by side; what ends them is in commit.c. */
#include "ckpt-fuse/writer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/bytes.h"
#include "common/crc32c.h"
#include "common/side_by_side.h"

#define CHUNK_SIZE ((uint32_t)MIB)
#define UNIT_CHUNKS 4u
#define COLUMNS 8u
/* Below this one column is as fast: beginning an object costs what some MiB do. */
#define STRIPED_SIZE (64 * MIB)

/* ------------------------------------------------------------------- opening --- */

int writer_new_segment(struct ckpt_segment *s, uint32_t columns,
		       struct error *err)
{
	uint32_t random;

	*s = (struct ckpt_segment){ .columns = columns };
	if (getrandom(s->id, sizeof(s->id), 0) != (ssize_t)sizeof(s->id))
		return error_set(err, errno, "random bytes: %s",
				 strerror(errno));
	memcpy(&random, s->id, sizeof(random));
	s->rotation = random % columns;
	return 0;
}

/* Two objects of a request each take less time than a large one that a bucket is told to begin,
 * given the parts of and told to put together. */
static uint32_t columns_by_size(const struct ckpt_writer *w, uint64_t size)
{
	const uint64_t once = object_store_caps(w->store).put_once;

	if (size >= STRIPED_SIZE)
		return COLUMNS;
	return once ? (uint32_t)((size + once - 1) / once) : 1;
}

static int set_segment(struct ckpt_writer *w,
		       const struct ckpt_write_options *o, struct error *err)
{
	uint64_t unit = manifest_unit(w->manifest);
	uint64_t units = (o->size + unit - 1) / unit;
	uint32_t n = o->columns ? o->columns : columns_by_size(w, o->size);
	int rc;

	rc = writer_new_segment(w->segment, n > units ? (uint32_t)units : n,
				err);
	w->segment->length = o->size;
	return rc;
}

static bool is_to_be_plain(const struct ckpt_write_options *o)
{
	if (o->layout != CKPT_LAYOUT_BY_SIZE && o->size)
		return o->layout == CKPT_LAYOUT_PLAIN;
	return o->size <= (uint64_t)CHUNK_SIZE * UNIT_CHUNKS &&
	       !(o->size && ckpt_attr_is_secret(&o->attr));
}

static int set_manifest(struct ckpt_writer *w,
			const struct ckpt_write_options *o, struct error *err)
{
	bool is_plain = is_to_be_plain(o);
	uint64_t chunks = (o->size + CHUNK_SIZE - 1) / CHUNK_SIZE;
	int rc = manifest_new(is_plain ? 0 : 1, is_plain ? 0 : chunks,
			      &w->manifest, err);

	if (rc < 0)
		return rc;
	w->manifest->chunk_size = CHUNK_SIZE;
	w->manifest->unit_chunks = UNIT_CHUNKS;
	w->manifest->size = o->size;
	w->manifest->attr = o->attr;
	w->manifest->attr.mode &= 07777;
	w->is_plain = is_plain;
	w->segment = is_plain ? NULL : &w->manifest->segments[0];
	return is_plain ? 0 : set_segment(w, o, err);
}

#define MEMORY_STEP UINT64_C(65536) /* of a store's memory */

/* Each column keeps one part of its object until the commit: without memory for all of them
 * the last would wait for ever. */
static int check_memory(const struct ckpt_writer *w, struct error *err)
{
	const struct object_caps caps = object_store_caps(w->store);
	/* A store without conditions puts a lock besides, before it commits the first. */
	uint64_t need = caps.has_new ? 0 : MEMORY_STEP;

	for (uint32_t c = 0; c < w->segment->columns; c++) {
		uint64_t size = segment_column_size(w->manifest, w->segment, c);

		need += size < caps.part_size ? round_up(size, MEMORY_STEP)
					      : caps.part_size;
	}
	if (need <= caps.put_memory)
		return 0;
	return error_set(err, ENOBUFS,
			 "a file of %" PRIu32 " columns needs %" PRIu64
			 " MiB of memory, and there are %" PRIu64
			 ": give it more (--memory), or write fewer columns "
			 "(--columns)",
			 w->segment->columns, (need + MIB - 1) / MIB,
			 caps.put_memory / MIB);
}

/* The first unit of each. */
void writer_begin_columns(struct ckpt_writer *w)
{
	for (uint32_t c = 0; c < ckpt_writer_columns(w); c++)
		for (w->next_unit[c] = 0;
		     ckpt_writer_column(w, w->next_unit[c]) != c;)
			w->next_unit[c]++;
}

int ckpt_write_open(struct object_store *s, const char *path,
		    const struct ckpt_write_options *opts,
		    struct ckpt_writer **ret, struct error *err)
{
	AUTO(ckpt_writer) w = NULL;
	int rc;

	if (opts->columns > COLUMNS_MAX)
		return error_set(err, EINVAL,
				 "a file has 1 to %u columns, not %" PRIu32,
				 COLUMNS_MAX, opts->columns);
	if (opts->size != CKPT_SIZE_UNKNOWN &&
	    opts->size > (uint64_t)MANIFEST_MAX / 8 * CHUNK_SIZE)
		return error_set(err, EFBIG,
				 "a file of %" PRIu64 " bytes is too large",
				 opts->size);
	w = calloc(1, sizeof(*w));
	if (!w)
		return error_nomem(err);
	(void)pthread_mutex_init(&w->lock, NULL);
	w->store = s;
	w->version =
		opts->version && opts->version->is_known ? opts->version : NULL;
	w->path = strdup(path);
	if (!w->path)
		return error_nomem(err);
	rc = manifest_name(path, &w->name, err);
	if (rc == 0)
		rc = opts->size == CKPT_SIZE_UNKNOWN
			     ? writer_set_growing(w, opts, err)
			     : set_manifest(w, opts, err);
	if (rc == 0 && !w->is_growing && w->segment)
		rc = check_memory(w, err);
	if (rc < 0)
		return rc;
	if (!w->is_growing)
		writer_begin_columns(w);
	*ret = steal_ptr(&w);
	return 0;
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

/* Columns of a file that will not be; those that cannot be removed are ckpt_gc()'s. */
static void take_back(struct ckpt_writer *w, const struct ckpt_segment *s)
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

/* Those that were committed, or are to be: an error may have been of the last one. */
static void take_all_back(struct ckpt_writer *w)
{
	if (w->is_sent)
		return;
	if (w->segment && !w->is_growing && w->is_begun)
		take_back(w, w->segment);
	for (size_t i = w->n_base; i < w->map.n_segments; i++)
		if (i + 1 < w->map.n_segments || !w->segment || w->is_begun)
			take_back(w, &w->map.segments[i]);
}

void ckpt_writer_free(struct ckpt_writer *w)
{
	if (!w)
		return;
	for (uint32_t c = 0; c < COLUMNS_MAX; c++)
		object_put_free(w->puts[c]);
	take_all_back(w);
	unit_map_fini(&w->map);
	manifest_free(w->manifest);
	(void)pthread_mutex_destroy(&w->lock);
	free(w->path);
	free(w);
}
