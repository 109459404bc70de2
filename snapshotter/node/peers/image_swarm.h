// SPDX-License-Identifier: Apache-2.0
/*
 * The swarms that the node is in (p2p/p2p.h): one for each image that was used since bootseerd
 * started, until the image is removed.  Any thread.
 *
 * Without --p2p-listen there are no swarms, and each call returns at once.
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
	const atomic_bool *is_ending; /* true: the node is ending */
};
/* Open by the configuration; *ret is NULL without --p2p-listen.  All functions below accept
 * NULL, unless they say that there must be peers. */
int image_swarms_open(const struct image_swarms_of *of,
		      struct image_swarms **ret, struct error *err) MUST_CHECK;
/* Leave all swarms, telling other nodes.  No device uses them any more. */
void image_swarms_close(struct image_swarms *s);

/* Read certificates, keys and tokens again.  False: some could not be read, which is logged;
 * their old values stay in use. */
bool image_swarms_reload(struct image_swarms *s);
/* Check the files that the options of peers name: can they be read, and are they valid today? */
int image_swarms_check(const struct node_config *cfg,
		       struct error *err) MUST_CHECK;
/* Can only its owner read the private key?  -EPERM: others can. */
int image_swarms_check_key(const struct node_config *cfg,
			   struct error *err) MUST_CHECK;
/* p2p_check_reach(), if there are peers. */
int image_swarms_check_reach(const struct node_config *cfg,
			     struct error *err) MUST_CHECK;

/* Serve images from before a restart: some of those with the most users.  Reads and hashes
 * their block maps. */
void image_swarms_resume(struct image_swarms *s);

/* The engine of peers; only if there are peers. */
struct p2p *image_swarms_p2p(const struct image_swarms *s);
/* The Authorization header with which this node would pull the artifact from its registry; it
 * proves to peers that the node may have it: p2p_image_config.authorization. */
char *image_swarms_authorization(struct origin *o,
				 const struct digest *artifact,
				 struct pace *pace) MUST_CHECK;

/* Serve the image's metadata until the image is removed; takes `m`, which may be NULL. */
void image_swarm_keep_metadata(struct image *i, struct metadata_swarm *m);

struct image_swarm;

/* Take a use of the image's swarm, joining it if necessary; NULL with 0 when there are no peers. */
int image_swarm_get(struct image_swarms *s, struct image *i,
		    struct image_swarm **ret, struct error *err) MUST_CHECK;
void image_swarm_put(struct image_swarm *p); /* NULL is allowed */

/* Make a source for each pack, for device_new(): the array and the sources are
 * the caller's; `p` outlives them. */
int image_swarm_packs(struct image_swarm *p, struct block_source ***ret,
		      struct error *err) MUST_CHECK;

/* Fetch blocks as prefetch_config.fetch does; the argument is a struct image_swarm. */
int image_swarm_fetch(void *peer_image, const struct device_list *list,
		      struct error *err) MUST_CHECK;

/* The image was removed: leave its swarm when the last use is put back. */
void image_swarm_drop(struct image *i);

/* Bytes of an image's blocks by source, since it has a swarm; zero without a swarm. */
struct image_swarm_bytes {
	uint64_t peers, origin;
};
void image_swarm_get_bytes(struct image_swarms *s, const struct image *i,
			   struct image_swarm_bytes *ret);

/* Bytes of an image's blocks since the last call, and the peers that sent most; zero without a
 * swarm. */
#define IMAGE_FLOW_GIVERS 32u
struct image_flow {
	uint64_t peer_bytes, origin_bytes;
	/* the one that sent most is first */
	struct p2p_giver givers[IMAGE_FLOW_GIVERS];
	size_t n;
};
/* Put the difference of `now` and `told` into `ret`, and set `told` to `now`.  The difference
 * is zero if a count went down, as after leaving a swarm. */
void image_flow_count(struct image_swarm_bytes *told,
		      const struct image_swarm_bytes *now,
		      struct image_flow *ret);
void image_swarm_take_flow(struct image_swarms *s, struct image *i,
			   struct image_flow *ret);

/* The answer of p2p.status on the control socket. */
json_t *image_swarms_json(struct image_swarms *s) MUST_CHECK;
/* Get the figures of peers; all zero without peers. */
void image_swarms_stats(struct image_swarms *s, struct p2p_stats *ret);

#endif
