// SPDX-License-Identifier: Apache-2.0
/* Have two files of two snapshots the same bytes?  Digests first, then the blocks. */
#ifndef BOOTSEER_ENVCACHE_DIFF_CONTENT_H
#define BOOTSEER_ENVCACHE_DIFF_CONTENT_H

#include "envcache/load.h"

/* A snapshot, and the last block that was fetched of it. */
struct content_side {
	const struct loaded *l;      /* borrowed */
	struct block_source **packs; /* those that were opened */
	uint8_t *data;    /* BLOCK_USIZE_MAX; NULL until it is needed */
	size_t held;      /* block in `data`; n_blocks: none */
	uint64_t fetched; /* bytes of blocks, unpacked */
};

int content_side_init(struct content_side *s, const struct loaded *l,
		      struct error *err) MUST_CHECK;
void content_side_fini(struct content_side *s);

/* `x` of `a` and `y` of `b` are regular files. */
int content_is_same(struct content_side *a, const struct inode *x,
		    struct content_side *b, const struct inode *y,
		    bool *ret_same, struct error *err) MUST_CHECK;

#endif
