// SPDX-License-Identifier: Apache-2.0
/*
 * A file written by several processes: each writes some of its units with a writer of its own
 * (growing.h), and returns them as a part; one process commits the parts of all.
 */
#ifndef BOOTSEER_CKPT_FUSE_PARTS_H
#define BOOTSEER_CKPT_FUSE_PARTS_H

#include "ckpt-fuse/ckpt.h"
#include "common/buf.h"

#define CKPT_PART_UNIT (4u << 20) /* most bytes of a unit of such a file */
#define CKPT_PART_CHUNK (1u << 20)
/* Files up to this size have units of a chunk, so that all nodes of a group write some. */
#define CKPT_PART_SMALL (64u << 20)
/* Most pieces of all parts of a file together; a piece is a run of consecutive units stored at
 * consecutive places. */
#define CKPT_PARTS_PIECES 65536u

/* A set of columns, as named in manifests. */
struct ckpt_columns {
	uint8_t id[16];
	uint32_t n, rotation;
};

/* The place of a stored unit. */
struct ckpt_place {
	struct ckpt_columns columns;
	uint32_t place; /* units of the columns before it */
	uint32_t len;   /* stored bytes */
	uint32_t crcs[CKPT_PART_UNIT /
		      CKPT_PART_CHUNK]; /* CRC-32C of each MiB */
};

/* Use for unit `u` the bytes stored by an earlier part, instead of storing them again; call before
 * the writer begins its first segment. */
int ckpt_writer_name_unit(struct ckpt_writer *w, uint64_t u,
			  const struct ckpt_place *at,
			  struct error *err) MUST_CHECK;
/*
 * Check that the columns of all named units exist. From then on their own file may be removed:
 * ckpt_gc() treats them like columns being written, until the commit of the parts checks them
 * again.
 *   -ENOENT  some are not, or ckpt_gc() has found before that no file names them
 */
int ckpt_writer_check_named(struct ckpt_writer *w,
			    struct error *err) MUST_CHECK;

/* Called with the place of each unit of a part. */
typedef int ckpt_place_fn(void *arg, uint64_t u, const struct ckpt_place *at,
			  struct error *err);
int ckpt_part_places(const struct buf *part, ckpt_place_fn *fn, void *arg,
		     struct error *err) MUST_CHECK;

/* Make all written units durable, and append the writer's part to `ret`. From then on the writer
 * never removes its columns, since others may name them; ckpt_gc() removes unnamed ones. */
int ckpt_writer_give_part(struct ckpt_writer *w, uint64_t size, struct buf *ret,
			  struct error *err) MUST_CHECK;

/* Check that it is a part of a file of `size` bytes in units of `unit`. -EBADMSG: it is not. */
int ckpt_check_part(const struct buf *part, uint64_t size, uint32_t unit,
		    struct error *err) MUST_CHECK;

struct ckpt_file_parts {
	const struct buf *parts;
	size_t n;
	uint64_t size; /* bytes of the file, at least 1 */
	uint32_t unit; /* bytes of a unit, the same as of the parts' writers */
	/* Number of bytes that must be stored for each unit; 0: it is a hole. */
	const uint32_t *stored;
	struct ckpt_attr attr;
	const struct buf *xattrs; /* xattrs.h; NULL: none */
	/* See ckpt_write_options. */
	struct ckpt_version *version;
};

/*
 * Commit the parts as a file, in one step. Succeeds also if another process has committed parts
 * with the same bytes before.
 *   -EBADMSG  the parts are damaged, are of other files, overlap, or are not all of the file
 *   -ESTALE   columns are gone; or another has written the file since `version`
 */
int ckpt_commit_parts(struct object_store *s, const char *path,
		      const struct ckpt_file_parts *p,
		      struct error *err) MUST_CHECK;
/*
 * Check that the columns of a striped file exist and that ckpt_gc() knows that they are named. A
 * file may be visible between a commit's put and the commit's own check, which may remove it again.
 *   -ENOENT  no, or no striped file has the name
 */
int ckpt_check_columns(struct object_store *s, const char *path,
		       struct error *err) MUST_CHECK;

#endif
