// SPDX-License-Identifier: Apache-2.0
/*
 * Hashes of tables.
 *
 * uthash would end the program when memory is short.  With this header what could not
 * be added is left as it was: after HASH_ADD look at hash_has_added().
 *
 * Tables of our own whose keys come from outside have a seed that nobody is told:
 * without it nobody can choose keys that meet in one chain.  Not for what is stored or
 * sent, and no digest.
 */
#ifndef BOOTSEER_COMMON_HASH_H
#define BOOTSEER_COMMON_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

/* `element` was just added, its handle is the member `hh`. */
#define hash_has_added(element) ((element)->hh.tbl != NULL)

struct hash_seed {
	uint64_t start, factor;
};

/* From the kernel's random numbers. */
int hash_seed_new(struct hash_seed *ret, struct error *err) MUST_CHECK;

/* All bits depend on all of `data`: any of them choose a bucket. */
uint64_t hash_seeded(const struct hash_seed *s, const void *data, size_t len);

#endif
