// SPDX-License-Identifier: Apache-2.0
/*
 * Blocks by their place in the packs, in runs that lie one behind the other: a run is
 * one request.  Threads take runs; each block is compared with its digest before anybody
 * sees a byte of it.
 */
#ifndef BOOTSEER_ENVCACHE_RUNS_H
#define BOOTSEER_ENVCACHE_RUNS_H

#include "blockstore/blockstore.h"

/* Blocks sorted by runs_compare(); the functions are called on any thread. */
struct block_runs {
	size_t n;
	void (*block)(const void *arg, size_t i, struct block *ret);
	/* The bytes of block `i`, also of one that is the same stored bytes as that
	 * before it. */
	int (*put)(void *arg, size_t i, const void *data, struct error *err);
	/* A run of the pack failed with `rc`: 0 goes on with the others.  NULL: the
	 * first failure ends all. */
	int (*failed)(void *arg, uint32_t pack, int rc);
	void *arg;
	/* By number; NULL: nothing of it is read, as if it failed with -ENOENT. */
	struct block_source **packs;
};

/* By pack, place in it, place in the device. */
int runs_compare(const struct block *a, const struct block *b);

int runs_read(const struct block_runs *r, unsigned int threads,
	      struct error *err) MUST_CHECK;

#endif
