// SPDX-License-Identifier: Apache-2.0
/* Blocks that a store has already, which are not stored in it again. */
#ifndef BOOTSEER_IMAGE_WRITER_DEDUP_INDEX_H
#define BOOTSEER_IMAGE_WRITER_DEDUP_INDEX_H

#include "blockstore/blockstore.h"

/* Finds blocks that are stored already; implemented by whoever knows such
 * blocks. Called on one thread. */
struct dedup_index {
	/* False when it has no such block.  ret->voff is not set; ret->pack
	 * counts in the index's own packs. */
	bool (*find)(struct dedup_index *x, const struct digest *d,
		     struct block *ret);
	void (*pack)(struct dedup_index *x, uint32_t pack, struct pack *ret);
};

#endif
