// SPDX-License-Identifier: Apache-2.0
/*
 * Earlier snapshots of a store, whose blocks a new snapshot can share instead of storing them
 * again.  Their index is not trusted: each shared block is read and compared once before the new
 * snapshot is published.
 */
#ifndef BOOTSEER_ENVCACHE_BASES_H
#define BOOTSEER_ENVCACHE_BASES_H

#include "envcache/shared.h"
#include "image/writer/dedup_index.h"

#define ENV_BASES_MAX 4u     /* snapshots whose blocks are used */
#define ENV_BASES_NEWEST 32u /* snapshots whose keys are compared */

/* A snapshot whose packs are stored in the shared folder. */
struct env_base {
	struct digest key, manifest;
	char folder[33];
};
void env_base_of(const struct env_snapshot *snap, struct env_base *ret);

/* Choose those of the newest snapshots that have most items in common with the key; snapshots that
 * cannot be read are skipped. */
int env_bases_choose(struct object_store *s, const struct env_key *key,
		     struct env_base ret[ENV_BASES_MAX], size_t *ret_n,
		     struct error *err) MUST_CHECK;

struct bases;
/* Index the blocks of the snapshots in `list`, except those in packs listed in `doomed` or `bad`,
 * which are borrowed. */
int bases_new(struct object_store *s, const struct env_base *list, size_t n,
	      const struct env_digests *doomed, const struct env_digests *bad,
	      struct bases **ret, struct error *err) MUST_CHECK;
void bases_free(struct bases *b); /* NULL is allowed */
DEFINE_AUTO(bases)
struct dedup_index *bases_index(struct bases *b);
/* Read and compare all blocks that were taken from the index.  -EAGAIN: packs with wrong blocks
 * were added to `bad`. */
int bases_check(struct bases *b, unsigned int threads, struct env_digests *bad,
		struct error *err) MUST_CHECK;

#endif
