// SPDX-License-Identifier: Apache-2.0
/* Blocks of a giver (envcache.h), each compared with its digest, before those of the store. */
#ifndef BOOTSEER_ENVCACHE_GIVEN_H
#define BOOTSEER_ENVCACHE_GIVEN_H

#include "blockstore/blockstore.h"
#include "envcache/restore.h"

/* Opens a pack of the store; on any thread, one at a time. */
typedef int given_open_fn(void *arg, size_t pack, struct block_source **ret,
			  struct error *err);

/* A giver, for several threads; borrows it. */
struct given;
int given_new(struct env_giver *g, given_open_fn *open, void *arg,
	      struct given **ret, struct error *err) MUST_CHECK;
void given_free(struct given *g); /* NULL is allowed */

/* The blocks of a pack: what the giver has wrong, or not, is the store's, which is not asked
 * for anything before. */
int given_source_new(struct given *g, size_t pack, struct block_source **ret,
		     struct error *err) MUST_CHECK;

#endif
