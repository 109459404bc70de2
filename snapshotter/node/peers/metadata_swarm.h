// SPDX-License-Identifier: Apache-2.0
/*
 * Gets an artifact's metadata image and block map from other nodes: a swarm whose pieces are
 * the parts that the manifest names (image/artifact/parts.h); a small blob is one piece.  Parts
 * are kept in the block cache, pinned, and served until metadata_swarm_close().  All images'
 * parts together may take an eighth of the cache: the oldest make room for new ones.
 *
 * A start waits for these blobs, so it waits for peers only while parts come or are announced;
 * the missing parts are read from the registry at the same time.
 */
#ifndef BOOTSEER_NODE_METADATA_SWARM_H
#define BOOTSEER_NODE_METADATA_SWARM_H

#include "snapshotter/node/images/images.h"
#include "snapshotter/node/remote_call.h"

/* The artifact and its repository; all borrowed during the call. */
struct metadata_swarm_of {
	const struct artifact *artifact;
	const char *host, *repo, *label;
	bool plain_http;
	bool must_hold; /* join only if some parts are on the node */
};

/* Join the swarm.  NULL with 0: there is none to join, since the node has no peers, the blobs
 * are too large, the cache has no room to pin them, or must_hold and no part is here. */
struct image_swarms;
struct metadata_swarm;
int metadata_swarm_open(struct image_swarms *s,
			const struct metadata_swarm_of *of,
			struct metadata_swarm **ret,
			struct error *err) MUST_CHECK;
/* Leave the swarm and unpin its parts.  No fetch may be running. */
void metadata_swarm_close(struct metadata_swarm *m); /* NULL is allowed */

/* Fetch as artifact_fetch(), with the swarm; a blob that is too large comes from `store`.  May
 * be called once.  -ECANCELED: `pace` said stop. */
int metadata_swarm_fetch(struct metadata_swarm *m, struct oci_store *store,
			 const struct artifact *a, struct pace *pace,
			 const char *meta_path, const char *map_path,
			 struct error *err) MUST_CHECK;

#endif
