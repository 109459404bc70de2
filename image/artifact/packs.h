// SPDX-License-Identifier: Apache-2.0
/*
 * All contents of a stored tree at once, without a cache: who restores or checks one
 * reads each pack from its first byte to its last.
 */
#ifndef BOOTSEER_IMAGE_ARTIFACT_PACKS_H
#define BOOTSEER_IMAGE_ARTIFACT_PACKS_H

#include "blockstore/blockstore.h"
#include "image/artifact/artifact.h"

/* Takes blocks. */
struct packs_sink {
	/* A block, unpacked and verified: the b->usize bytes at b->voff of the
	 * device, borrowed until it returns, or NULL when all of them are zero,
	 * so that a hole can stay one.  A failure ends the reading. */
	int (*put)(struct packs_sink *s, const struct block *b,
		   const void *data, struct error *err);
	/* Progress: stored bytes that were read, and all of them.  May be NULL. */
	void (*step)(struct packs_sink *s, uint64_t done, uint64_t total);
};

/* Is the map that of the artifact, with the same packs and size?  -EBADMSG. */
int packs_check_map(const struct artifact *a, const struct blockmap *map,
		    struct error *err) MUST_CHECK;

/*
 * Read every pack of a map that passed packs_check_map(), in order, and give all
 * blocks of the map to `sink`, by pack and place in it: a block that the map has at
 * several places of the device comes once for each.  Blocks the calling thread; the
 * store has the timeouts.  Memory: 4 bytes for each block of the map, and a block.
 *   -EBADMSG  a pack or block has other bytes than its digest says, or none where
 *             the map has some
 *   else      what the store or `sink` failed with
 */
int packs_read(struct oci_store *store, const struct artifact *a,
	       const struct blockmap *map, struct packs_sink *sink,
	       struct error *err) MUST_CHECK;

#endif
