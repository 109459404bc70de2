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
	uint64_t start, length; /* range of the segment in the file */
	uint32_t columns, rotation;
	/* Units in the columns before this segment's, which may belong to others: a changed file
	 * uses parts of what was written together. */
	uint64_t place;
	uint64_t first_chunk; /* index of its first checksum in the manifest */
};

struct manifest {
	uint32_t chunk_size, unit_chunks;
	uint64_t size, generation;
	struct ckpt_attr attr;
	struct ckpt_segment *segments;
	size_t n_segments;
	uint32_t *crcs;
	uint64_t n_chunks;
	/* extended attributes (ckpt-fuse/xattrs.h); mostly empty */
	struct buf xattrs;
};

/* Create an empty manifest with memory for so many segments and chunks; *ret is NULL on -ENOMEM. */
int manifest_new(size_t n_segments, uint64_t n_chunks, struct manifest **ret,
		 struct error *err) MUST_CHECK;
void manifest_free(struct manifest *m);
DEFINE_AUTO(manifest)

/* Decode an object's bytes. -EBADMSG: the message says what is wrong; -ENOTSUP: an unknown
 * version. */
int manifest_decode(const void *data, size_t len, struct manifest **ret,
		    struct error *err) MUST_CHECK;
/* Decode only the first MANIFEST_HEADER bytes: size, generation and attributes; *ret_len is the
 * length of the object. */
int manifest_decode_header(const void *data, size_t len, struct manifest *ret,
			   uint64_t *ret_len, struct error *err) MUST_CHECK;
int manifest_encode(const struct manifest *m, struct buf *out,
		    struct error *err) MUST_CHECK;

static inline uint64_t manifest_unit(const struct manifest *m)
{
	return (uint64_t)m->chunk_size * m->unit_chunks;
}

/* Index of the segment with the byte at `off`, or else of the next segment; n_segments: none. */
size_t manifest_find(const struct manifest *m, uint64_t off);

/* An id of the bytes that the manifest names, without attributes: manifests of the same bytes have
 * the same id. */
uint64_t manifest_bytes_id(const struct manifest *m);
/* The same for a plain object, from its tag. */
uint64_t tag_bytes_id(const char *tag);
bool manifest_has_segment(const struct manifest *m,
			  const struct ckpt_segment *s);

/* For each segment, find the first segment in the same columns (mostly itself). The caller frees
 * the list with free(). */
int manifest_same_segments(const struct manifest *m, size_t **ret,
			   struct error *err) MUST_CHECK;

/* The location of a chunk of a segment. */
struct chunk_place {
	uint32_t column;
	uint64_t off; /* offset in the column */
	uint32_t len; /* stored bytes */
};
struct chunk_place chunk_place(const struct manifest *m,
			       const struct ckpt_segment *s, uint64_t chunk);
/* Has the segment any bytes in this column? */
bool segment_has_column(const struct manifest *m, const struct ckpt_segment *s,
			uint32_t column);
uint64_t segment_chunks(const struct manifest *m, const struct ckpt_segment *s);
/* Bytes of one of the segment's columns; its `place` must be 0. */
uint64_t segment_column_size(const struct manifest *m,
			     const struct ckpt_segment *s, uint32_t column);

#define COLUMN_NAME_MAX 64
void column_name(const struct ckpt_segment *s, uint32_t column,
		 char out[COLUMN_NAME_MAX]);
/* Parse the ID in a column's name; false: not the name of a column. */
bool column_parse(const char *name, uint8_t ret_id[SEGMENT_ID]);

/* Name of an object beside the columns, whose time tells since when no manifest has named them. */
#define SEGMENT_MARK "unnamed"
void segment_mark_name(const uint8_t id[SEGMENT_ID], char out[COLUMN_NAME_MAX]);
bool segment_mark_parse(const char *name, uint8_t ret_id[SEGMENT_ID]);

#endif
