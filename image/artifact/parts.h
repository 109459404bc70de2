// SPDX-License-Identifier: Apache-2.0
/*
 * The digests of a blob's parts, so that nodes can pass a metadata image or a block
 * map on part by part and check each by itself: docs/formats/artifact.md.  Pure.
 */
#ifndef BOOTSEER_IMAGE_ARTIFACT_PARTS_H
#define BOOTSEER_IMAGE_ARTIFACT_PARTS_H

#include "objects/oci.h"

/* Annotation of a blob's descriptor: size and digests of the blob's parts. */
#define PARTS_ANNOTATION "dev.bootseer.parts"

/* A blob shorter than one part gets no such annotation: the blob's own digest covers it. */
#define PARTS_SIZE_MIN (256u << 10)
#define PARTS_SIZE_MAX BLOCK_USIZE_MAX
#define PARTS_MAX 256u /* of a blob: 16 KiB of text */

struct parts {
	struct digest *digests; /* in order; NULL when n is 0 */
	uint32_t n;             /* 0: the blob has no parts */
	uint32_t size;          /* bytes of each but the last */
};

void parts_fini(struct parts *p);

/* Size of the parts of a blob of `blob` bytes; 0: the blob gets no parts, as it is too
 * small, or too large for PARTS_MAX parts. */
uint32_t parts_size(uint64_t blob);

/* Write the annotation's value. */
int parts_format(const struct parts *p, struct buf *ret,
		 struct error *err) MUST_CHECK;
/* Parse the annotation of a blob of `blob` bytes. -EINVAL says what is
 * wrong. */
int parts_parse(const char *text, uint64_t blob, struct parts *ret,
		struct error *err) MUST_CHECK;

/* The parts in which nodes pass the blob on: its own ones, borrowed; or, of a blob too small
 * to have any, the whole blob as one part, whose digest is put into `room`. n is 0 when the
 * blob is large and has no parts: nodes do not pass it on. */
struct parts parts_passed(const struct parts *p,
			  const struct oci_descriptor *blob,
			  struct digest *room);

/*
 * Describe blobs with parts as a block map, in which each blob is a pack and its parts are
 * blocks stored raw. blockmap_open() takes the result, which the caller owns; a blob without
 * parts gets no pack. -EINVAL: no blob has parts.
 */
struct parts_blob {
	const struct oci_descriptor *blob;
	const struct parts *parts;
};
int parts_map(const struct parts_blob *blobs, size_t n, void **ret,
	      size_t *ret_len, struct error *err) MUST_CHECK;

#endif
