// SPDX-License-Identifier: Apache-2.0
/*
 * Holds contents of tiny files until the metadata image is written: in a nameless file that is
 * read through a mapping, so that they take no memory in between. Not thread-safe.
 */
#ifndef BOOTSEER_IMAGE_WRITER_SPILL_H
#define BOOTSEER_IMAGE_WRITER_SPILL_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define SPILL_BYTES_MAX (UINT64_C(2) << 30) /* in all; -EFBIG beyond */
#define SPILL_ONE_MAX (64u << 10)           /* bytes put at once */

struct spill;

/* `dir` as for temp_file(). */
int spill_new(const char *dir, struct spill **ret,
	      struct error *err) MUST_CHECK;
void spill_free(struct spill *s); /* frees the contents too */
DEFINE_AUTO(spill)

/* Keep `len` bytes.  They may be read at `*ret` after spill_flush(), until
 * spill_free(). */
int spill_put(struct spill *s, const void *data, size_t len,
	      const uint8_t **ret, struct error *err) MUST_CHECK;
int spill_flush(struct spill *s, struct error *err) MUST_CHECK;

/* Release the memory that reading took; the contents stay readable. */
void spill_forget(struct spill *s);

#endif
