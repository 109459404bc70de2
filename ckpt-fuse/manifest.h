// SPDX-License-Identifier: Apache-2.0
/* The manifest of a striped file: docs/formats/checkpoint.md. Pure. */
#ifndef BOOTSEER_CKPT_FUSE_MANIFEST_H
#define BOOTSEER_CKPT_FUSE_MANIFEST_H

#include "ckpt-fuse/ckpt.h"
#include "common/buf.h"

#define MANIFEST_MAX (64u << 20) /* bytes */
#define MANIFEST_SUFFIX ".bsm"
#define MANIFEST_HEADER 96u
#define SEGMENTS_MAX 65536u
#define COLUMNS_MAX 64u
#define SEGMENT_ID 16u /* bytes */

struct ckpt_segment {
	uint8_t id[SEGMENT_ID];
	uint64_t start, length; /* in the file */
	uint32_t columns, rotation;
	/* Units of the columns before those of this segment, which others may have: a file
	 * that was changed has pieces of what was written together. */
	uint64_t place;
	uint64_t first_chunk; /* among the checksums of the manifest */
};

struct manifest {
	uint32_t chunk_size, unit_chunks;
	uint64_t size, generation;
	struct ckpt_attr attr;
	struct ckpt_segment *segments;
	size_t n_segments;
	uint32_t *crcs;
	uint64_t n_chunks;
	struct buf xattrs; /* ckpt-fuse/xattrs.h; most have none */
};

/* An empty manifest with memory for so many; *ret_ is NULL on -ENOMEM. */
int manifest_new(size_t n_segments, uint64_t n_chunks, struct manifest **ret,
		 struct error *err) MUST_CHECK;
void manifest_free(struct manifest *m);
DEFINE_AUTO(manifest)

/* Take an object's bytes apart.  -EBADMSG says what is wrong with them, -ENOTSUP that
 * the version is another. */
int manifest_decode(const void *data, size_t len, struct manifest **ret,
		    struct error *err) MUST_CHECK;
/* The same of the first MANIFEST_HEADER bytes alone, as far as they go: size,
 * generation, attributes, and how long the object is in *ret_len. */
int manifest_decode_header(const void *data, size_t len, struct manifest *ret,
			   uint64_t *ret_len, struct error *err) MUST_CHECK;
int manifest_encode(const struct manifest *m, struct buf *out,
		    struct error *err) MUST_CHECK;

static inline uint64_t manifest_unit(const struct manifest *m)
{
	return (uint64_t)m->chunk_size * m->unit_chunks;
}

/* The segment that holds the byte at `off`, or the next one behind; n_segments when
 * there is none. */
size_t manifest_find(const struct manifest *m, uint64_t off);

/* Id of the bytes that the manifest names, and of no attribute: two manifests of the same
 * bytes have the same one. */
uint64_t manifest_bytes_id(const struct manifest *m);
/* The same of a plain object, which its tag says. */
uint64_t tag_bytes_id(const char *tag);
bool manifest_has_segment(const struct manifest *m,
			  const struct ckpt_segment *s);

/* List for each segment the first segment in the same columns, mostly the segment itself.
 * The caller frees the list with free(). */
int manifest_same_segments(const struct manifest *m, size_t **ret,
			   struct error *err) MUST_CHECK;

/* Where a chunk of a segment is. */
struct chunk_place {
	uint32_t column;
	uint64_t off; /* in the column */
	uint32_t len; /* bytes that are stored */
};
struct chunk_place chunk_place(const struct manifest *m,
			       const struct ckpt_segment *s, uint64_t chunk);
/* Has any of its bytes there. */
bool segment_has_column(const struct manifest *m, const struct ckpt_segment *s,
			uint32_t column);
uint64_t segment_chunks(const struct manifest *m, const struct ckpt_segment *s);
/* Bytes of one of its columns; of a segment whose `place` is 0. */
uint64_t segment_column_size(const struct manifest *m,
			     const struct ckpt_segment *s, uint32_t column);

#define COLUMN_NAME_MAX 64
void column_name(const struct ckpt_segment *s, uint32_t column,
		 char out[COLUMN_NAME_MAX]);
/* The ID in a column's name; false when it is no name of a column. */
bool column_parse(const char *name, uint8_t ret_id[SEGMENT_ID]);

/* An empty object beside the columns, which says since when nobody has named them. */
#define SEGMENT_MARK "unnamed"
void segment_mark_name(const uint8_t id[SEGMENT_ID], char out[COLUMN_NAME_MAX]);
bool segment_mark_parse(const char *name, uint8_t ret_id[SEGMENT_ID]);

#endif
