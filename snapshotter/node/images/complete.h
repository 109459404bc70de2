// SPDX-License-Identifier: Apache-2.0
/* Images that are whole in the cache, for mounts without a daemon. */
#ifndef BOOTSEER_NODE_COMPLETE_H
#define BOOTSEER_NODE_COMPLETE_H

#include "blockstore/blockstore.h"
#include "snapshotter/node/images/map_file.h"

struct complete_job {
	struct cache *cache;
	const struct blockmap *map;
	const struct map_file *meta; /* the image's metadata */
	struct digest meta_digest;   /* digest of `meta`, already checked */
	/* the mount's name for cache_mount_keep() */
	const char *name;
	/* lets one layout be built at a time; or NULL */
	struct keyed_lock *gate;
	int64_t deadline_ns; /* CLOCK_MONOTONIC */
};

/* Files of a complete mount. */
struct complete {
	char *meta_path;
	char **files; /* the extra devices */
	size_t n_files;
};
void complete_fini(struct complete *c);

/*
 * Check those of the image's blocks that this process has not checked yet, and lay out a
 * metadata image that points into the cache's files.  On success the cache keeps these blocks
 * for the mount until cache_mount_drop().
 *     -ENOENT     a block is not on the node
 *     -ETIMEDOUT  the deadline came first; blocks checked so far stay so
 *     -E2BIG      it lies in more files than a metadata image may name, or in too
 *                             many pieces
 *     -EFBIG      the metadata or the layout is too large
 *     -EBUSY      an earlier mount of it lives on, with another layout
 */
int complete_prepare(const struct complete_job *job, struct complete *ret,
		     struct error *err) MUST_CHECK;

#endif
