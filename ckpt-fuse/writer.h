// SPDX-License-Identifier: Apache-2.0
/* A file that is being written, as writer.c and commit.c share it. */
#ifndef BOOTSEER_CKPT_FUSE_WRITER_H
#define BOOTSEER_CKPT_FUSE_WRITER_H

#include <pthread.h>

#include "ckpt-fuse/names.h"

struct ckpt_writer {
	struct object_store *store;
	char *path;
	struct manifest_name name;
	struct manifest *manifest;    /* a plain file has no segment */
	struct ckpt_segment *segment; /* that is written; of a striped one */
	uint64_t first_unit;          /* of it, in the file */
	struct ckpt_version *version; /* borrowed; NULL: nothing is compared */
	pthread_mutex_t lock; /* of a file that grows: its length, checksums */
	struct object_put *puts[COLUMNS_MAX]; /* a plain file: the first */
	uint64_t next_unit[COLUMNS_MAX];      /* that the column is to have */
	bool is_there[COLUMNS_MAX];           /* as an object */
	bool is_growing, is_plain;
	/* The manifest may be there, whatever we heard of it: columns stay. */
	bool is_sent;
	/* The file that it goes on behind was removed or replaced: nobody names its columns but
	 * we. */
	bool is_base_gone;
	uint64_t base_generation;     /* of that file; 0: none */
	char put_tag[OBJECT_TAG_MAX]; /* of our manifest, when it is there */
};

static inline bool writer_is_plain(const struct ckpt_writer *w)
{
	return w->is_plain;
}

/* Have the put of a column, or of the plain object. */
int writer_column_put(struct ckpt_writer *w, uint32_t c,
		      struct error *err) MUST_CHECK;
/* Have all of them.  A put takes what memory is free while it goes on, and one that is begun
 * behind it might find none until all are done. */
int writer_open_puts(struct ckpt_writer *w, struct error *err) MUST_CHECK;

#endif
