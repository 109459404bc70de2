// SPDX-License-Identifier: Apache-2.0
/* A file that is being written, as writer*.c, growing.c and commit.c share it. */
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
	struct manifest *manifest; /* a plain file has no segment */
	/* The segment that is written; NULL for a plain file, and while a growing file has none. */
	struct ckpt_segment *segment;
	struct ckpt_version *version; /* borrowed; NULL: nothing is compared */
	struct object_put *puts[COLUMNS_MAX]; /* a plain file: the first */
	uint64_t next_unit[COLUMNS_MAX];      /* that the column is to have */
	bool is_growing, is_plain;
	atomic_bool is_begun; /* columns were committed, or may have been */
	/* The manifest may be there, whatever we heard of it: columns stay. */
	bool is_sent;
	/* The file that it goes on behind was removed or replaced: nobody names its columns but
	 * we. */
	bool is_base_gone;
	uint64_t base_generation;     /* of that file; 0: none */
	char put_tag[OBJECT_TAG_MAX]; /* of our manifest, when it is there */
	/* State of a file that grows: growing.c. */
	pthread_mutex_t lock; /* the map */
	struct unit_map map;
	size_t n_base;               /* segments of it that were there before */
	struct ckpt_segment growing; /* the one that is written */
};

static inline bool writer_is_plain(const struct ckpt_writer *w)
{
	return w->is_plain;
}

/* Begin the put of a column, or of the plain object, if it is not begun yet. */
int writer_column_put(struct ckpt_writer *w, uint32_t c,
		      struct error *err) MUST_CHECK;
/* Begin the puts of all columns at once.  Each takes memory as it goes on, so that a later one
 * might find none until the others are done. */
int writer_open_puts(struct ckpt_writer *w, struct error *err) MUST_CHECK;

void writer_begin_columns(struct ckpt_writer *w);
/* Unit `u` of the segment goes to its column. */
int writer_put_unit(struct ckpt_writer *w, uint64_t u, const void *data,
		    size_t len, struct error *err) MUST_CHECK;
/* Where the unit's bytes may be laid before ckpt_write_unit() of them, which then copies none;
 * NULL: nowhere.  As object_put_room(). */
void *writer_unit_room(struct ckpt_writer *w, uint64_t u, size_t len);
/* A new segment of so many columns; its ID is random. */
int writer_new_segment(struct ckpt_segment *s, uint32_t columns,
		       struct error *err) MUST_CHECK;
/* Have a column durable that has all its units, while others still get theirs.  Columns may
 * be ended side by side; nobody sees them before the manifest.  A plain object is its file: it
 * waits for ckpt_commit(). */
int writer_end_column(struct ckpt_writer *w, uint32_t c,
		      struct error *err) MUST_CHECK;
/* Have what was written of the columns durable. */
int writer_commit_columns(struct ckpt_writer *w, struct error *err) MUST_CHECK;
/* The part of ckpt_write_open() for a file that grows. */
int writer_set_growing(struct ckpt_writer *w,
		       const struct ckpt_write_options *o,
		       struct error *err) MUST_CHECK;
/* Segments and checksums of its manifest are those of its map. */
int writer_fill_manifest(struct ckpt_writer *w, struct error *err) MUST_CHECK;
/* A mark of ckpt_gc() that says since when nobody has named a segment. */
enum base_mark {
	BASE_MARK_REFUSED, /* as if the columns were gone */
	BASE_MARK_LEFT, /* the manifest is not there yet: gc goes by its mark until then */
	BASE_MARK_TAKEN, /* the manifest is there: the mark is removed */
};
/* base.c.  Are the columns there that the writer names and has not made?  -ENOENT: they are not, or
 * ckpt_gc() says that it is about to remove them. */
int writer_look_at_base(struct ckpt_writer *w, enum base_mark mark,
			struct error *err) MUST_CHECK;
/* Does the manifest name a segment that this writer made? */
bool writer_is_named(const struct ckpt_writer *w, const struct manifest *m);

#endif
