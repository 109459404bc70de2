// SPDX-License-Identifier: Apache-2.0
/*
 * Images that containerd pulls: which layers a manifest names, and the swarm of these layers.
 * The manifest is fetched from the registry with the node's own logins, so its layers belong to
 * that repository.  Only pulled_open() and pulled_close() wait for others.
 */
#ifndef BOOTSEER_NODE_MIRROR_PULLED_H
#define BOOTSEER_NODE_MIRROR_PULLED_H

#include <stdatomic.h>

#include "p2p/p2p.h"
#include "snapshotter/node/mirror/layer_file.h"

/* containerd's limit; it pulls larger images from the registry itself */
#define PULLED_LAYERS_MAX 128u
#define LIARS_MAX 64u

/* Nodes that lately sent a wrong piece of a registry's layer.  A registry could frame any node
 * by sending it other bytes than us, so a node is distrusted for that registry alone.  Any
 * thread. */
struct liars {
	pthread_mutex_t lock; /* all below */
	struct {
		char host[256], node[256];
		int64_t until;
	} list[LIARS_MAX];
	size_t next;
};
void liars_add(struct liars *l, const char *host, const char *node);
bool liars_have(struct liars *l, const char *host, const char *node);

struct pulled_layer {
	struct digest digest;
	uint64_t size;
	uint32_t first; /* block of the map that is the layer's piece 0 */
	struct layer_file *file;
	struct source *registry; /* the layer's stored bytes */
};

struct image_swarms;
struct origins;

struct pulled {
	struct origins *origins;
	struct image_swarms *peers; /* NULL: the registry sends all layers */
	uint64_t most;              /* most bytes of its layers together */
	struct liars *liars;
	char *host, *repo; /* as in containerd's request */
	struct digest manifest;
	struct origin *origin;
	void *map_bytes; /* bytes that `map` refers to */
	struct blockmap map;
	struct p2p_image *p2p; /* NULL: no peers */
	struct pulled_layer *layers;
	size_t n_layers;
};

/* Get the manifest, and join the swarm of its layers.  Blocks until `pace` ends it.  -ENOTSUP:
 * it is no image's manifest, or the image is not fit for a mirror. */
int pulled_open(struct pulled *p, struct pace *pace,
		struct error *err) MUST_CHECK;
/* Leave the swarm and free all files; a zeroed image is allowed.  Blocks. */
void pulled_close(struct pulled *p);

#endif
