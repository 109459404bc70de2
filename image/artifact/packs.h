// SPDX-License-Identifier: Apache-2.0
/*
 * Reads all contents of a stored tree at once, without a cache, for a restore or a check: each
 * pack is read from its first byte to its last.
 */
#ifndef BOOTSEER_IMAGE_ARTIFACT_PACKS_H
#define BOOTSEER_IMAGE_ARTIFACT_PACKS_H

#include "blockstore/blockstore.h"
#include "image/artifact/artifact.h"

/* Receives the blocks that packs_read() reads. */
struct packs_sink {
	/* Take an unpacked and verified block: the b->usize bytes at b->voff of the device,
	 * borrowed until it returns, or NULL when all of them are zero, so that a hole can stay
	 * a hole. A failure ends the reading. */
	int (*put)(struct packs_sink *s, const struct block *b,
		   const void *data, struct error *err);
	/* Progress: `done` of `total` stored bytes were read. May be NULL. */
	void (*step)(struct packs_sink *s, uint64_t done, uint64_t total);
};

/* Does the map belong to the artifact: same packs, same size? -EBADMSG. */
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
