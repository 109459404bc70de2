// SPDX-License-Identifier: Apache-2.0
/*
 * Loads and saves of the starts that were asked for last, so that a view that is looked at
 * again reads no event until some node sends more.  Any thread; getting blocks on the
 * database.
 */
#ifndef BOOTSEER_REGISTRY_CKPT_CACHE_H
#define BOOTSEER_REGISTRY_CKPT_CACHE_H

#include "registry/ckpt_db.h"

#define CKPT_CACHE_STARTS 16u       /* starts that are kept */
#define CKPT_CACHE_BYTES (4u << 20) /* a larger one is not */
#define CKPT_CACHE_LARGE 20000      /* events; to read them takes a while */

struct ckpt_cache;
int ckpt_cache_new(struct db *db, struct ckpt_cache **ret,
		   struct error *err) MUST_CHECK;
void ckpt_cache_free(struct ckpt_cache *c); /* no thread uses it */

/* The start as it is now, not changed any more; give it back with ckpt_cache_put().
 * -ENOENT. */
int ckpt_cache_get(struct ckpt_cache *c, int64_t id,
		   const struct ckpt_found **ret, struct error *err) MUST_CHECK;
/* For whoever sums up starts one after the other: those that are read quickly take no
 * place of what others looked at, and a large one is there when it is looked at. */
int ckpt_cache_sum(struct ckpt_cache *c, int64_t id,
		   const struct ckpt_found **ret, struct error *err) MUST_CHECK;
void ckpt_cache_put(struct ckpt_cache *c, const struct ckpt_found *f);

#endif
