// SPDX-License-Identifier: Apache-2.0
/* Begins writers: chooses the layout, and checks the memory for it. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt-fuse/writer.h"
#include "common/bytes.h"

#define CHUNK_SIZE ((uint32_t)MIB)
#define UNIT_CHUNKS 4u
#define COLUMNS 8u
/* Up to this size one column is as fast, because beginning an object costs as much as some MiB. */
#define STRIPED_SIZE (64 * MIB)
#define MEMORY_STEP UINT64_C(65536) /* step of a store's memory */

/* Choose the number of columns. Two objects of one request each are faster than one large object,
 * for which a bucket needs requests to begin, for each part, and to complete. */
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
	int rc = writer_new_segment(w->segment, n > units ? (uint32_t)units : n,
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

/* Check the memory: each column holds one part until the commit, so without memory for all columns
 * the last would wait for ever. */
static int check_memory(const struct ckpt_writer *w, struct error *err)
{
	const struct object_caps caps = object_store_caps(w->store);
	/* A store without conditional puts also writes a lock object before the first commit. */
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
