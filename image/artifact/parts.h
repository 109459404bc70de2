// SPDX-License-Identifier: Apache-2.0
/*
 * The digests of a blob's parts, so that nodes can pass a metadata image or a block
 * map on part by part and check each by itself: docs/formats/artifact.md.  Pure.
 */
#ifndef BOOTSEER_IMAGE_ARTIFACT_PARTS_H
#define BOOTSEER_IMAGE_ARTIFACT_PARTS_H

#include "objects/oci.h"

/* On the descriptor of a blob: its parts. */
#define PARTS_ANNOTATION "dev.bootseer.parts"

/* The manifest names no parts of a blob of less than one part: its own digest is that. */
#define PARTS_SIZE_MIN (256u << 10)
#define PARTS_SIZE_MAX BLOCK_USIZE_MAX
#define PARTS_MAX 256u /* of a blob: 16 KiB of text */

struct parts {
	struct digest *digests; /* in order; NULL when n is 0 */
	uint32_t n;             /* 0: the blob has no parts */
	uint32_t size;          /* bytes of each but the last */
};

void parts_fini(struct parts *p);

/* Bytes of a part of a blob of so many bytes; 0: it gets none, as it is too small,
 * or too large for PARTS_MAX parts. */
uint32_t parts_size(uint64_t blob);

/* The annotation's value. */
int parts_format(const struct parts *p, struct buf *ret,
		 struct error *err) MUST_CHECK;
/* Parse the annotation of a blob of `blob` bytes. -EINVAL says what is
 * wrong. */
int parts_parse(const char *text, uint64_t blob, struct parts *ret,
		struct error *err) MUST_CHECK;

/* As what nodes pass the blob on: the parts that it has, borrowed, or, of a blob that is too
 * small for any, all of it as one, whose digest is put into `room`.  None: it is too large. */
struct parts parts_passed(const struct parts *p,
			  const struct oci_descriptor *blob,
			  struct digest *room);

/*
 * Blobs with parts as an image: each is a pack, its parts are the blocks, stored as
 * they are.  blockmap_open() takes what is returned, the caller's; a blob whose
 * parts are none has no pack in it.  -EINVAL: none has parts.
 */
struct parts_blob {
	const struct oci_descriptor *blob;
	const struct parts *parts;
};
int parts_map(const struct parts_blob *blobs, size_t n, void **ret,
	      size_t *ret_len, struct error *err) MUST_CHECK;

#endif
