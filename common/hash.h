// SPDX-License-Identifier: Apache-2.0
/*
 * Hash tables (uthash) and a seeded hash.
 *
 * uthash would end the program when memory is short.  With this header a failed HASH_ADD leaves
 * the table unchanged: check hash_has_added() after it.
 *
 * Our own tables whose keys come from outside use a secret seed, so that nobody can choose keys
 * that all fall into one chain.  The hash is not a digest, and is never stored or sent.
 */
#ifndef BOOTSEER_COMMON_HASH_H
#define BOOTSEER_COMMON_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

/* Did HASH_ADD work?  `element` was just added with its handle in the member `hh`. */
#define hash_has_added(element) ((element)->hh.tbl != NULL)

struct hash_seed {
	uint64_t start, factor;
};

/* Make a seed of the kernel's random numbers. */
int hash_seed_new(struct hash_seed *ret, struct error *err) MUST_CHECK;

/* Each bit of the result depends on all of `data`, so that any bits may choose a bucket. */
uint64_t hash_seeded(const struct hash_seed *s, const void *data, size_t len);

#endif
