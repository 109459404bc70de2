// SPDX-License-Identifier: Apache-2.0
/* Finds which parts of a sparse file a tar contains: GNU tar's manual, "Sparse Formats". */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_TAR_SPARSE_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_TAR_SPARSE_H

#include "snapshotter/convert/tar_head.h"

#define TAR_PARTS_MAX (1u << 20) /* parts of one file */

struct tar_part {
	uint64_t off, len; /* in the file */
};

/* Ascending, without overlap, within the file. */
struct tar_parts {
	struct tar_part *v;
	size_t n, cap;
};

/* Read the map of TAR_SPARSE_OLD or TAR_SPARSE_RECORDS; earlier parts are forgotten.
 *     -EBADMSG  it is no valid map
 *     -E2BIG    more parts than TAR_PARTS_MAX */
int tar_parts_of_head(struct tar_parts *p, const struct tar_head *h,
		      struct error *err) MUST_CHECK;

/* Read the map of TAR_SPARSE_CONTENT from the first `len` bytes of the content.  0: more bytes
 * are needed.  1: the parts begin `*ret_used` bytes after the content's begin. */
int tar_parts_of_content(struct tar_parts *p, uint64_t size,
			 const uint8_t *content, size_t len, uint64_t *ret_used,
			 struct error *err) MUST_CHECK;

/* Sum of the parts' bytes. */
uint64_t tar_parts_sum(const struct tar_parts *p);

void tar_parts_fini(struct tar_parts *p);

#endif
