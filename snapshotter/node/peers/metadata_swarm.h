// SPDX-License-Identifier: Apache-2.0
/*
 * An artifact's metadata image and block map by way of other nodes: a swarm whose
 * pieces are the parts that the manifest names (image/artifact/parts.h), and small blobs
 * as they are.  Parts are kept
 * in the block cache, pinned, and served from there until metadata_swarm_close().  Those of all
 * images have an eighth of the cache: for new ones the oldest leave.
 *
 * A start waits for these blobs, so peers are waited for only while something comes
 * or is about to: what is missing then is read from the registry beside them.
 */
#ifndef BOOTSEER_NODE_METADATA_SWARM_H
#define BOOTSEER_NODE_METADATA_SWARM_H

#include "snapshotter/node/images/images.h"
#include "snapshotter/node/remote_call.h"

/* The artifact, and where it is; all borrowed during the call. */
struct metadata_swarm_of {
	const struct artifact *artifact;
	const char *host, *repo, *label;
	bool plain_http;
	bool must_hold; /* join only if some of it is on the node */
};

/* Join the swarm.  NULL with 0: there is none to join, as the node has no peers,
 * the blobs are too large, or the cache no room to pin them; who must hold some makes none. */
struct image_swarms;
struct metadata_swarm;
int metadata_swarm_open(struct image_swarms *s,
			const struct metadata_swarm_of *of,
			struct metadata_swarm **ret,
			struct error *err) MUST_CHECK;
/* Leave it and unpin.  Nothing is being fetched. */
void metadata_swarm_close(struct metadata_swarm *m); /* NULL is allowed */

/* As artifact_fetch(), of the same artifact, by the swarm; a blob that is too large from
 * `store`.  Once.  -ECANCELED: `pace` said stop. */
int metadata_swarm_fetch(struct metadata_swarm *m, struct oci_store *store,
			 const struct artifact *a, struct pace *pace,
			 const char *meta_path, const char *map_path,
			 struct error *err) MUST_CHECK;

#endif
