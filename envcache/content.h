// SPDX-License-Identifier: Apache-2.0
/* Contents of a snapshot's files, on several threads. */
#ifndef BOOTSEER_ENVCACHE_CONTENT_H
#define BOOTSEER_ENVCACHE_CONTENT_H

#include "envcache/unpack_plan.h"

/* Takes checked bytes of a node's file; on any thread, of one node on several. */
typedef int content_put_fn(void *arg, uint32_t node, uint64_t off,
			   const void *data, size_t len, struct error *err);

/* Read each block of the map once, from its pack, and hand on the pieces of it. */
int content_read(const struct loaded *l, const struct unpack_plan *p,
		 unsigned int threads, content_put_fn *put, void *arg,
		 struct error *err) MUST_CHECK;

#endif
