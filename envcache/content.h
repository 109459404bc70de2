// SPDX-License-Identifier: Apache-2.0
/* Read the contents of a snapshot's files, on several threads. */
#ifndef BOOTSEER_ENVCACHE_CONTENT_H
#define BOOTSEER_ENVCACHE_CONTENT_H

#include "envcache/unpack_plan.h"

/* Receives verified bytes of a node's file; called on any thread, concurrently for one node. */
typedef int content_put_fn(void *arg, uint32_t node, uint64_t off,
			   const void *data, size_t len, struct error *err);

/* Read each block of the map once from its pack, and pass its pieces to `put`. */
int content_read(const struct loaded *l, const struct unpack_plan *p,
		 unsigned int threads, content_put_fn *put, void *arg,
		 struct error *err) MUST_CHECK;

#endif
