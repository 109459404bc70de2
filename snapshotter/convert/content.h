// SPDX-License-Identifier: Apache-2.0
/*
 * The digest of a file's bytes, the same however its holes lie: over each 4096
 * bytes of the file that are not all zero, with their place.  It is no digest of
 * the plain bytes.
 */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_CONTENT_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_CONTENT_H

#include "common/digest.h"

struct content_hash;

struct content_hash *content_hash_new(void) MUST_CHECK;
void content_hash_free(struct content_hash *h);
DEFINE_AUTO(content_hash)

/* Bytes at `off` of the file, from first to last; what is left out is zero.
 * -EINVAL: an offset before the end of what was added. */
int content_hash_add(struct content_hash *h, uint64_t off, const void *data,
		     size_t len) MUST_CHECK;
/* The digest of the file; the next one can begin. */
int content_hash_final(struct content_hash *h, struct digest *ret) MUST_CHECK;

#endif
