// SPDX-License-Identifier: Apache-2.0
/* Get blocks from a giver (envcache.h) first, each verified by its digest, and the rest from the
 * store. */
#ifndef BOOTSEER_ENVCACHE_GIVEN_H
#define BOOTSEER_ENVCACHE_GIVEN_H

#include "blockstore/blockstore.h"
#include "envcache/restore.h"

/* Open a pack of the store; called on any thread, one call at a time. */
typedef int given_open_fn(void *arg, size_t pack, struct block_source **ret,
			  struct error *err);

/* A giver with a lock, to be used by several threads. */
struct given;
int given_new(struct env_giver *g, given_open_fn *open, void *arg,
	      struct given **ret, struct error *err) MUST_CHECK;
void given_free(struct given *g); /* NULL is allowed */

/* A source of a pack's blocks.  Blocks that the giver lacks or has wrong are read from the store's
 * pack, which is opened only then. */
int given_source_new(struct given *g, size_t pack, struct block_source **ret,
		     struct error *err) MUST_CHECK;

#endif
