// SPDX-License-Identifier: Apache-2.0
/*
 * The node's part in swarms (p2p/p2p.h): one for each image that has been used
 * since bootseerd started, until the image is removed.  Any thread.
 *
 * Without --p2p-listen there is none of it: every call is then quick and quiet.
 */
#ifndef BOOTSEER_NODE_IMAGE_SWARM_H
#define BOOTSEER_NODE_IMAGE_SWARM_H

#include "common/json.h"
#include "p2p/p2p.h"
#include "snapshotter/node/images/images.h"
#include "snapshotter/node/images/origin.h"
#include "snapshotter/node/config.h"
#include "snapshotter/node/remote_call.h"

struct cache;
struct image_swarms;
struct parser;

/* The parts of the node that swarms need; all is borrowed. */
struct image_swarms_of {
	const struct node_config *cfg;
	struct cache *cache;
	struct images *images;
	struct origins *origins;
	struct parser *parser;
	const atomic_bool *is_ending; /* the node ends */
};
/* From the configuration; NULL without --p2p-listen.  All below may be given NULL but where
 * it says that there are peers. */
int image_swarms_open(const struct image_swarms_of *of,
		      struct image_swarms **ret, struct error *err) MUST_CHECK;
/* Tells other nodes that this one leaves; every device is gone. */
void image_swarms_close(struct image_swarms *s);

/* Certificates, keys and tokens as they are on disk now.  False: some could not be read,
 * which is logged; these stay as they were. */
bool image_swarms_reload(struct image_swarms *s);
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
void image_swarms_resume(struct image_swarms *s);

/* There are peers. */
struct p2p *image_swarms_p2p(const struct image_swarms *s);
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
int image_swarm_get(struct image_swarms *s, struct image *i,
		    struct image_swarm **ret, struct error *err) MUST_CHECK;
void image_swarm_put(struct image_swarm *p); /* NULL is allowed */

/* Make a source for each pack, for device_new(): the array and the sources are
 * the caller's; `p` outlives them. */
int image_swarm_packs(struct image_swarm *p, struct block_source ***ret,
		      struct error *err) MUST_CHECK;

/* prefetch_config.fetch, whose argument is a struct image_swarm. */
int image_swarm_fetch(void *peer_image, const struct device_list *list,
		      struct error *err) MUST_CHECK;

/* The image was removed: leave its swarm when the last use is put back. */
void image_swarm_drop(struct image *i);

/* Bytes of its blocks by where they came from, since the image has a swarm;
 * zero without one. */
struct image_swarm_bytes {
	uint64_t peers, origin;
};
void image_swarm_get_bytes(struct image_swarms *s, const struct image *i,
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
void image_swarm_take_flow(struct image_swarms *s, struct image *i,
			   struct image_flow *ret);

/* p2p.status of the control socket. */
json_t *image_swarms_json(struct image_swarms *s) MUST_CHECK;
/* All zero without peers. */
void image_swarms_stats(struct image_swarms *s, struct p2p_stats *ret);

#endif
