// SPDX-License-Identifier: Apache-2.0
/*
 * An artifact's metadata image and block map by way of other nodes: a swarm whose
 * pieces are the parts that the manifest names (snapshotter/parts.h).  Parts are kept
 * in the block cache, pinned, and served from there until metadata_close().  Those of all
 * images have an eighth of the cache: for new ones the oldest leave.
 *
 * A start waits for these blobs, so peers are waited for only while something comes
 * or is about to: what is missing then is read from the registry beside them.
 */
#ifndef BOOTSEER_NODE_METADATA_H
#define BOOTSEER_NODE_METADATA_H

#include "snapshotter/node/node.h"

/* Of which artifact, and where it is; all borrowed during the call. */
struct metadata_of {
	const struct artifact *artifact;
	const char *host, *repo, *label;
	bool plain_http;
	bool must_hold; /* join only if some of it is on the node */
};

/* Join the swarm.  NULL with 0: there is none to join, as the node has no peers,
 * the blobs no parts, or the cache no room to pin them; who must hold some makes none. */
struct metadata;
int metadata_open(struct node *n, const struct metadata_of *of,
		  struct metadata **ret, struct error *err) MUST_CHECK;
/* Leave it and unpin.  Nothing is being fetched. */
void metadata_close(struct metadata *m); /* NULL is allowed */

/* As artifact_fetch(), of the same artifact, by the swarm; a blob without parts from
 * `store`.  Once.  -ECANCELED: the node ends. */
int metadata_fetch(struct metadata *m, struct oci_store *store,
		   const struct artifact *a, const char *meta_path,
		   const char *map_path, struct error *err) MUST_CHECK;

#endif
