// SPDX-License-Identifier: Apache-2.0
/*
 * Cache of the loads and saves of recently viewed starts. A view that is opened again reads no
 * events until some node sends more. Any thread may use it; getting an entry blocks on the
 * database.
 */
#ifndef BOOTSEER_REGISTRY_CKPT_CACHE_H
#define BOOTSEER_REGISTRY_CKPT_CACHE_H

#include "registry/ckpt_db.h"

#define CKPT_CACHE_STARTS 16u       /* starts in the cache at most */
#define CKPT_CACHE_BYTES (4u << 20) /* a larger start is not cached */
/* a start with so many events takes a while to read */
#define CKPT_CACHE_LARGE 20000

struct ckpt_cache;
int ckpt_cache_new(struct db *db, struct ckpt_cache **ret,
		   struct error *err) MUST_CHECK;
void ckpt_cache_free(struct ckpt_cache *c); /* no other thread may use it */

/* Get the loads and saves of start `id` as they are now. The result never changes; release it with
 * ckpt_cache_put(). -ENOENT: there is no such start. */
int ckpt_cache_get(struct ckpt_cache *c, int64_t id,
		   const struct ckpt_found **ret, struct error *err) MUST_CHECK;
/* The same for the job that sums up one start after another. Only a large start enters the cache,
 * so that small ones do not push out what users viewed. */
int ckpt_cache_sum(struct ckpt_cache *c, int64_t id,
		   const struct ckpt_found **ret, struct error *err) MUST_CHECK;
void ckpt_cache_put(struct ckpt_cache *c, const struct ckpt_found *f);

#endif
