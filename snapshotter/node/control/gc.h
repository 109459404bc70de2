// SPDX-License-Identifier: Apache-2.0
/* Giving disk space back: images that nobody mounts, blocks that nobody pins. */
#ifndef BOOTSEER_NODE_GC_H
#define BOOTSEER_NODE_GC_H

#include "snapshotter/node/control/node.h"

struct gc_result {
	uint64_t images;
	uint64_t freed_bytes;
};
int node_gc(struct node *n, bool images, bool shrink, uint64_t cache_bytes,
	    struct gc_result *ret, struct error *err) MUST_CHECK;

/* Remove the unused image that was asked for longest ago, not within the last minute;
 * false: there is none.  `*after`, 0 at first, keeps those that cannot go now from
 * being tried again. */
bool node_collect_one(struct node *n, int64_t *after) MUST_CHECK;
/* Remove the unused ones that nobody asked for in the NODE_IMAGE_MAX_AGE_S before `now`,
 * seconds since 1970. */
void node_collect_old(struct node *n, int64_t now);
/* Have a place for one more image.  -ENOSPC: all are in use. */
int node_collect_for_place(struct node *n, struct error *err) MUST_CHECK;

#endif
