// SPDX-License-Identifier: Apache-2.0
/*
 * The node's part in swarms (p2p/p2p.h): one for each image that has been used
 * since bootseerd started, until the image is removed.  Any thread.
 *
 * Without --p2p-listen there is none of it: every call is then quick and quiet.
 */
#ifndef BOOTSEER_NODE_IMAGE_SWARM_H
#define BOOTSEER_NODE_IMAGE_SWARM_H

#include "p2p/p2p.h"
#include "snapshotter/node/images/images.h"
#include "snapshotter/node/images/origin.h"
#include "snapshotter/node/node.h"
#include "snapshotter/node/remote_call.h"

/* node.peers, from the configuration; NULL without --p2p-listen. */
int image_swarms_open(struct node *n, struct error *err) MUST_CHECK;
/* Tells other nodes that this one leaves; every device is gone. */
void image_swarms_close(struct node *n);

/* Certificates, keys and tokens as they are on disk now.  False: some could not be read,
 * which is logged; these stay as they were. */
bool image_swarms_reload(struct node *n);
/* Can what the options of peers name be read, and is it good today? */
int image_swarms_check(const struct node_config *cfg,
		       struct error *err) MUST_CHECK;
/* Does the private key belong to its owner alone?  -EPERM: it does not. */
int image_swarms_check_key(const struct node_config *cfg,
			   struct error *err) MUST_CHECK;
/* p2p_check_reach(), where there are peers. */
int image_swarms_check_reach(const struct node_config *cfg,
			     struct error *err) MUST_CHECK;

/* Serve what the node has from before it was restarted: the images of most
 * users first, some of them.  Reads and hashes their block maps. */
void image_swarms_resume(struct node *n);

struct p2p *image_swarms_p2p(const struct node *n);  /* there are peers */
const char *image_swarms_name(const struct node *n); /* of this one; the same */
/* The header by which this node would pull the artifact from its registry,
 * shown as its right to it: p2p_image_config.authorization. */
char *image_swarms_authorization(struct origin *o,
				 const struct digest *artifact,
				 struct pace *pace) MUST_CHECK;

/* Serve its metadata until it is removed; takes `m`, which may be NULL. */
void image_swarm_keep_metadata(struct image *i, struct metadata_swarm *m);

struct image_swarm;

/* A use of the image's swarm, which it joins now if it did not; NULL with 0 when
 * there are no peers. */
int image_swarm_get(struct node *n, struct image *i, struct image_swarm **ret,
		    struct error *err) MUST_CHECK;
void image_swarm_put(struct image_swarm *p); /* NULL is allowed */

/* Make a source for each pack, for device_new(): the array and the sources are
 * the caller's; `p` outlives them. */
int image_swarm_packs(struct image_swarm *p, struct block_source ***ret,
		      struct error *err) MUST_CHECK;

/* prefetch_config.fetch, whose argument is a struct image_swarm. */
int image_swarm_fetch(void *peer_image, const struct device_list *list,
		      struct error *err) MUST_CHECK;

/* The image was removed: leave its swarm when the last use is put back. */
void image_swarm_drop(struct node *n, struct image *i);

/* Bytes of its blocks by where they came from, since the image has a swarm;
 * zero without one. */
struct image_swarm_bytes {
	uint64_t peers, origin;
};
void image_swarm_get_bytes(struct node *n, const struct image *i,
			   struct image_swarm_bytes *ret);

/* Bytes of its blocks that came since the last call, and which peers gave most;
 * nothing without a swarm. */
#define IMAGE_FLOW_GIVERS 32u
struct image_flow {
	uint64_t peer_bytes, origin_bytes;
	struct p2p_giver givers[IMAGE_FLOW_GIVERS]; /* who gave most first */
	size_t n;
};
/* `now` since `told`, which it becomes; nothing where less is known than before, as of a
 * swarm that was left meanwhile. */
void image_flow_count(struct image_swarm_bytes *told,
		      const struct image_swarm_bytes *now,
		      struct image_flow *ret);
void image_swarm_take_flow(struct node *n, struct image *i,
			   struct image_flow *ret);

/* p2p.status of the control socket. */
json_t *image_swarms_json(struct node *n) MUST_CHECK;
/* All zero without peers. */
void image_swarms_stats(struct node *n, struct p2p_stats *ret);

#endif
