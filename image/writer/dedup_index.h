// SPDX-License-Identifier: Apache-2.0
/* Finds blocks that a store has already, so that they are not stored again. */
#ifndef BOOTSEER_IMAGE_WRITER_DEDUP_INDEX_H
#define BOOTSEER_IMAGE_WRITER_DEDUP_INDEX_H

#include "blockstore/blockstore.h"

/* Interface to a set of stored blocks. Called on one thread. */
struct dedup_index {
	/* Find a block; false when the set has none with this digest. ret->voff is not set;
	 * ret->pack is a number for pack(). */
	bool (*find)(struct dedup_index *x, const struct digest *d,
		     struct block *ret);
	void (*pack)(struct dedup_index *x, uint32_t pack, struct pack *ret);
};

#endif
