// SPDX-License-Identifier: Apache-2.0
/*
 * Earlier snapshots of a store, whose blocks a new one need not put again.  Nothing is
 * believed of them: what is referred to is read and compared once, before the new
 * snapshot's index is put.
 */
#ifndef BOOTSEER_ENVCACHE_BASES_H
#define BOOTSEER_ENVCACHE_BASES_H

#include "envcache/shared.h"
#include "image/writer/dedup_index.h"

#define ENV_BASES_MAX 4u     /* whose blocks are looked at */
#define ENV_BASES_NEWEST 32u /* whose keys are */

/* A snapshot whose packs are among those that are shared. */
struct env_base {
	struct digest key, manifest;
	char folder[33];
};
void env_base_of(const struct env_snapshot *snap, struct env_base *ret);

/* Choose, of the snapshots that were put last, those that have most of the key's items in common;
 * a snapshot that cannot be read is passed over. */
int env_bases_choose(struct object_store *s, const struct env_key *key,
		     struct env_base ret[ENV_BASES_MAX], size_t *ret_n,
		     struct error *err) MUST_CHECK;

struct bases;
/* The blocks of `list`, but those in packs of `doomed` and `bad`, which are borrowed. */
int bases_new(struct object_store *s, const struct env_base *list, size_t n,
	      const struct env_digests *doomed, const struct env_digests *bad,
	      struct bases **ret, struct error *err) MUST_CHECK;
void bases_free(struct bases *b); /* NULL is allowed */
DEFINE_AUTO(bases)
struct dedup_index *bases_index(struct bases *b);
/* Read all blocks that the index gave.  -EAGAIN: packs that do not have them were added
 * to `bad`. */
int bases_check(struct bases *b, unsigned int threads, struct env_digests *bad,
		struct error *err) MUST_CHECK;

#endif
