// SPDX-License-Identifier: Apache-2.0
/* Images that are whole in the cache, for mounts without a daemon. */
#ifndef BOOTSEER_NODE_COMPLETE_H
#define BOOTSEER_NODE_COMPLETE_H

#include "blockstore/blockstore.h"
#include "snapshotter/node/map_file.h"

struct complete_job {
	struct cache *cache;
	const struct blockmap *map;
	const struct map_file *meta; /* the image's metadata */
	struct digest meta_digest;   /* of it, checked */
	const char *dir;             /* complete.erofs and .json go here */
	int64_t deadline_ns;         /* CLOCK_MONOTONIC */
};

/* What to mount. */
struct complete {
	char *meta_path;
	char **files; /* the extra devices */
	size_t n_files;
};
void complete_fini(struct complete *c);

/*
 * Pin the image's blocks, check those not yet checked by this process, and lay
 * out a metadata image that points into the cache's files.  The pins are the
 * caller's on success, to be given back after the unmount; none otherwise.
 *   -ENOENT     a block is not on the node
 *   -ETIMEDOUT  the deadline came first; blocks checked so far stay so
 *   -E2BIG      it lies in more files than a metadata image may name
 */
int complete_prepare(const struct complete_job *job, struct complete *ret,
		     struct error *err) MUST_CHECK;

/* Files of the cache that a mount made earlier names: as complete_prepare()
 * left them, without any check.  For adopting a mount that is still there. */
int complete_load(const char *dir, struct complete *ret,
		  struct error *err) MUST_CHECK;

#endif
