// SPDX-License-Identifier: Apache-2.0
/*
 * An artifact's metadata image and block map by way of other nodes: a swarm whose
 * pieces are the parts that the manifest names (snapshotter/parts.h).  Parts are kept
 * in the block cache, pinned, and served from there until metadata_close().
 *
 * A start waits for these blobs, so peers are waited for no longer than something
 * comes or is about to: what they have not brought then is read from the registry
 * beside them.
 */
#ifndef BOOTSEER_NODE_METADATA_H
#define BOOTSEER_NODE_METADATA_H

#include "snapshotter/node/node.h"

struct metadata;

/* Join the swarm of the artifact's metadata, which is in `o`.  `must_hold`: only if
 * some of it is on the node.  NULL with 0: there is none to join, as the node has no
 * peers, or the blobs no parts. */
int metadata_open(struct node *n, const struct artifact *a, struct origin *o,
		  bool must_hold, struct metadata **ret,
		  struct error *err) MUST_CHECK;
/* Unpin, leave the swarm.  Nothing is being fetched. */
void metadata_close(struct metadata *m); /* NULL is allowed */
DEFINE_AUTO(metadata)

/* As artifact_fetch(), by the swarm; blobs without parts from `store`.  Once. */
int metadata_fetch(struct metadata *m, struct oci_store *store,
		   const struct artifact *a, const char *meta_path,
		   const char *map_path, struct error *err) MUST_CHECK;

#endif
