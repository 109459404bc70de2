// SPDX-License-Identifier: Apache-2.0
/*
 * Read blocks in the order of their positions in the packs; adjacent blocks form a run, which is
 * read by one request.  Several threads take runs.  Each block is verified by its digest before it
 * is passed on.
 */
#ifndef BOOTSEER_ENVCACHE_RUNS_H
#define BOOTSEER_ENVCACHE_RUNS_H

#include "blockstore/blockstore.h"

/* Blocks sorted by runs_compare(); the functions are called on any thread. */
struct block_runs {
	size_t n;
	void (*block)(const void *arg, size_t i, struct block *ret);
	/* Called with the bytes of block `i`; also for a block with the same stored bytes as the
	 * one before. */
	int (*put)(void *arg, size_t i, const void *data, struct error *err);
	/* Called when a run of the pack failed with `rc`; returns 0 to go on with other runs.
	 * NULL: the first failure ends everything. */
	int (*failed)(void *arg, uint32_t pack, int rc);
	void *arg;
	/* By pack number; NULL: the pack is not read, as if it failed with -ENOENT. */
	struct block_source **packs;
};

/* Compare by pack, position in it, position in the device. */
int runs_compare(const struct block *a, const struct block *b);

int runs_read(const struct block_runs *r, unsigned int threads,
	      struct error *err) MUST_CHECK;

#endif
