// SPDX-License-Identifier: Apache-2.0
/* The state of a written file, shared by writer*.c, growing.c and commit.c. */
#ifndef BOOTSEER_CKPT_FUSE_WRITER_H
#define BOOTSEER_CKPT_FUSE_WRITER_H

#include <pthread.h>
#include <stdatomic.h>

#include "ckpt-fuse/unit_map.h"
#include "ckpt-fuse/names.h"

struct ckpt_writer {
	struct object_store *store;
	char *path;
	struct manifest_name name;
	struct manifest *manifest; /* has no segment if the file is plain */
	/* The current segment; NULL for a plain file, and while a growing file has none. */
	struct ckpt_segment *segment;
	struct ckpt_version *version; /* borrowed; NULL: nothing is compared */
	struct object_put *puts[COLUMNS_MAX]; /* a plain file uses the first */
	uint64_t next_unit[COLUMNS_MAX];      /* next unit of each column */
	bool is_growing, is_plain;
	atomic_bool is_begun; /* columns may have been committed */
	/* The manifest may be in the store, whatever the answer was: keep the columns. */
	bool is_sent;
	/* The base file was removed or replaced, so only this writer names its columns. */
	bool is_base_gone;
	uint64_t base_generation;     /* generation of the base file; 0: none */
	char put_tag[OBJECT_TAG_MAX]; /* tag of our manifest, once it was put */
	/* The members below are for growing files (growing.c). */
	pthread_mutex_t lock; /* protects `map` */
	struct unit_map map;
	/* number of segments that belong to the base */
	size_t n_base;
	struct ckpt_segment growing; /* the current segment */
};

static inline bool writer_is_plain(const struct ckpt_writer *w)
{
	return w->is_plain;
}

/* Begin the put of a column or of the plain object, if it has not begun. */
int writer_column_put(struct ckpt_writer *w, uint32_t c,
		      struct error *err) MUST_CHECK;
/* Begin the puts of all columns together. Each needs memory later, and a put that began later might
 * get none until the others end. */
int writer_open_puts(struct ckpt_writer *w, struct error *err) MUST_CHECK;

void writer_begin_columns(struct ckpt_writer *w);
/* Write unit `u` of the segment to its column. */
int writer_put_unit(struct ckpt_writer *w, uint64_t u, const void *data,
		    size_t len, struct error *err) MUST_CHECK;
/* Get memory to put the unit's bytes in before ckpt_write_unit(), which then needs no copy; NULL:
 * none. See object_put_room(). */
void *writer_unit_room(struct ckpt_writer *w, uint64_t u, size_t len);
/* Make a new segment of so many columns, with a random ID. */
int writer_new_segment(struct ckpt_segment *s, uint32_t columns,
		       struct error *err) MUST_CHECK;
/* Make a complete column durable, while others are still written. Columns may be ended in parallel;
 * they are not visible before the manifest. A plain object is the file itself, so it waits for
 * ckpt_commit(). */
int writer_end_column(struct ckpt_writer *w, uint32_t c,
		      struct error *err) MUST_CHECK;
/* Make all columns durable. */
int writer_commit_columns(struct ckpt_writer *w, struct error *err) MUST_CHECK;
/* The part of ckpt_write_open() for a file that grows. */
int writer_set_growing(struct ckpt_writer *w,
		       const struct ckpt_write_options *o,
		       struct error *err) MUST_CHECK;
/* Set the segments and checksums of the manifest from the map. */
int writer_fill_manifest(struct ckpt_writer *w, struct error *err) MUST_CHECK;
/* How a mark of ckpt_gc(), which tells since when no manifest names a segment, is treated. */
enum base_mark {
	BASE_MARK_REFUSED, /* fail as if the columns were gone */
	BASE_MARK_LEFT,    /* our manifest is not put yet: leave the mark */
	BASE_MARK_TAKEN,   /* our manifest is put: remove the mark */
};
/* base.c: check that the columns exist that the writer names but did not make. -ENOENT: some do
 * not, or ckpt_gc() is about to remove them. */
int writer_look_at_base(struct ckpt_writer *w, enum base_mark mark,
			struct error *err) MUST_CHECK;
/* Does the manifest name a segment that this writer made? */
bool writer_is_named(const struct ckpt_writer *w, const struct manifest *m);

#endif
