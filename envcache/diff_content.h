// SPDX-License-Identifier: Apache-2.0
/* Do two files of two snapshots have the same bytes?  Compared by digest first, then by block. */
#ifndef BOOTSEER_ENVCACHE_DIFF_CONTENT_H
#define BOOTSEER_ENVCACHE_DIFF_CONTENT_H

#include "envcache/load.h"

/* A snapshot, and its last fetched block. */
struct content_side {
	const struct loaded *l;      /* borrowed */
	struct block_source **packs; /* opened packs; others are NULL */
	uint8_t *data;    /* BLOCK_USIZE_MAX bytes; NULL until needed */
	size_t held;      /* number of the block in `data`; n_blocks: none */
	uint64_t fetched; /* bytes of blocks, unpacked */
};

int content_side_init(struct content_side *s, const struct loaded *l,
		      struct error *err) MUST_CHECK;
void content_side_fini(struct content_side *s);

/* Compare the regular files `x` of `a` and `y` of `b`. */
int content_is_same(struct content_side *a, const struct inode *x,
		    struct content_side *b, const struct inode *y,
		    bool *ret_same, struct error *err) MUST_CHECK;

#endif
