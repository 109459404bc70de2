// SPDX-License-Identifier: Apache-2.0
/*
 * A digest of a file's bytes that does not depend on where its holes are: over each 4096 bytes
 * of the file that are not all zero, with their offset.  It differs from the digest of the
 * plain bytes.
 */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_CONTENT_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_CONTENT_H

#include "common/digest.h"

struct content_hash;

struct content_hash *content_hash_new(void) MUST_CHECK;
void content_hash_free(struct content_hash *h);
DEFINE_AUTO(content_hash)

/* Add bytes at `off` of the file, in ascending order; bytes that are not added count as zeros.
 * -EINVAL: `off` is before the end of the bytes so far. */
int content_hash_add(struct content_hash *h, uint64_t off, const void *data,
		     size_t len) MUST_CHECK;
/* Get the file's digest; the next file can begin then. */
int content_hash_final(struct content_hash *h, struct digest *ret) MUST_CHECK;

#endif
