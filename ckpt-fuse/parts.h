// SPDX-License-Identifier: Apache-2.0
/*
 * A file that several processes write: each writes some of its units with a writer of its own
 * (growing.h), gives what it wrote as a part, and one of them commits the parts of all.
 */
#ifndef BOOTSEER_CKPT_FUSE_PARTS_H
#define BOOTSEER_CKPT_FUSE_PARTS_H

#include "ckpt-fuse/ckpt.h"
#include "common/buf.h"

#define CKPT_PART_UNIT (4u << 20) /* bytes of a unit of such a file at most */
#define CKPT_PART_CHUNK (1u << 20)
/* Files up to this size have units of a chunk, so that all nodes of a group write some. */
#define CKPT_PART_SMALL (64u << 20)
/* Pieces of a file that all its parts have together at most: units in a row that lie in a row. */
#define CKPT_PARTS_PIECES 65536u

/* Objects that were written side by side, as manifests name them. */
struct ckpt_columns {
	uint8_t id[16];
	uint32_t n, rotation;
};

/* The place of a unit that was stored. */
struct ckpt_place {
	struct ckpt_columns columns;
	uint32_t place; /* units of the columns before it */
	uint32_t len;   /* bytes that are stored */
	uint32_t crcs[CKPT_PART_UNIT /
		      CKPT_PART_CHUNK]; /* CRC-32C of each MiB */
};

/* Let unit `u` be one that an earlier part has stored, which is not stored again; before the writer
 * begins its first segment. */
int ckpt_writer_name_unit(struct ckpt_writer *w, uint64_t u,
			  const struct ckpt_place *at,
			  struct error *err) MUST_CHECK;
/* Are the columns of units that were named all there?  Their file may be removed from now on:
 * ckpt_gc() leaves them for as long as columns that are written now, until the parts are committed,
 * which looks at them once more.
 *   -ENOENT  some are not, or ckpt_gc() has found before that no file names them */
int ckpt_writer_check_named(struct ckpt_writer *w,
			    struct error *err) MUST_CHECK;

/* Call `fn` with the place of each unit of a part. */
typedef int ckpt_place_fn(void *arg, uint64_t u, const struct ckpt_place *at,
			  struct error *err);
int ckpt_part_places(const struct buf *part, ckpt_place_fn *fn, void *arg,
		     struct error *err) MUST_CHECK;

/* Have all that the writer has durable, and append its part to `ret`.  The writer then leaves
 * its columns in the store, whatever becomes of the file: others may name them by now, and
 * ckpt_gc() removes those that nobody names. */
int ckpt_writer_give_part(struct ckpt_writer *w, uint64_t size, struct buf *ret,
			  struct error *err) MUST_CHECK;

/* Is it a part of a file of `size` bytes, in units of `unit`?  -EBADMSG: no */
int ckpt_check_part(const struct buf *part, uint64_t size, uint32_t unit,
		    struct error *err) MUST_CHECK;

struct ckpt_file_parts {
	const struct buf *parts;
	size_t n;
	uint64_t size; /* of the file, at least 1 */
	uint32_t unit; /* bytes of its units: that of the parts' writers */
	/* Bytes that have to be stored of each of the units; 0: it is a hole. */
	const uint32_t *stored;
	struct ckpt_attr attr;
	const struct buf *xattrs; /* xattrs.h; NULL: none */
	/* As ckpt_write_options has it. */
	struct ckpt_version *version;
};

/* Make the file of the parts appear, in one step.  Also when another has committed parts of the
 * same bytes before.
 *   -EBADMSG  the parts are damaged, are of other files, overlap, or are not all of the file
 *   -ESTALE   columns are gone; or another has written the file since `version` */
int ckpt_commit_parts(struct object_store *s, const char *path,
		      const struct ckpt_file_parts *p,
		      struct error *err) MUST_CHECK;
/* Are the columns of a striped file there, and does ckpt_gc() know that they are named?  A file may
 * be seen between its commit's put and the commit's own look, which may take it back.
 *   -ENOENT  no, or no striped file has the name */
int ckpt_check_columns(struct object_store *s, const char *path,
		       struct error *err) MUST_CHECK;

#endif
