// SPDX-License-Identifier: Apache-2.0
/*
 * The places of blocks of trees that are stored already, by digest: a new tree can share these
 * blocks. The places come from block maps that others wrote, so they may be wrong. One thread
 * adds; after that any thread may search.
 */
#ifndef BOOTSEER_IMAGE_WRITER_BLOCK_TABLE_H
#define BOOTSEER_IMAGE_WRITER_BLOCK_TABLE_H

#include "blockstore/blockstore.h"
#include "image/artifact/artifact.h"

#define BLOCK_TABLE_BLOCKS_MAX (1u << 20) /* blocks that are kept */
#define BLOCK_TABLE_MAP_MAX (64u << 20) /* bytes of a block map; else -EFBIG */

struct oci_store;
struct block_table;

int block_table_new(struct block_table **ret, struct error *err) MUST_CHECK;
void block_table_free(struct block_table *t);
DEFINE_AUTO(block_table)

/* Add the blocks of an artifact's map, as far as there is room. When a block has several
 * places, the first is kept, except that a place with `is_own` (the caller vouches for the map)
 * replaces one without. //   -EBADMSG, -EINVAL, -ENOTSUP, -EFBIG, -ENOENT  the map cannot be
 * used */
int block_table_add(struct block_table *t, struct oci_store *store,
		    const struct artifact *a, bool is_own,
		    struct error *err) MUST_CHECK;

/* Find a block; false: there is none. ret->voff is not set, and ret->pack is a number for
 * block_table_pack(). */
bool block_table_find(const struct block_table *t, const struct digest *d,
		      struct block *ret, bool *ret_is_own);

size_t block_table_n_packs(const struct block_table *t);
/* i < block_table_n_packs().  Borrowed. */
const struct pack *block_table_pack(const struct block_table *t, size_t i);

#endif
