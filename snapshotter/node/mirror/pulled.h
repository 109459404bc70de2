// SPDX-License-Identifier: Apache-2.0
/*
 * Images that containerd pulls: which layers a manifest of a repository names, and the swarm of
 * these.  The manifest is had from the registry by the node's own logins, so what it names is
 * that repository's.  pulled_open() and pulled_close() wait for others; the rest does not.
 */
#ifndef BOOTSEER_NODE_MIRROR_PULLED_H
#define BOOTSEER_NODE_MIRROR_PULLED_H

#include <stdatomic.h>

#include "p2p/p2p.h"
#include "snapshotter/node/mirror/layer_file.h"

#define PULLED_LAYERS_MAX \
	128u /* as containerd's; those of larger images it pulls itself */
#define LIARS_MAX 64u

/* Nodes that sent a wrong piece lately, of layers of a registry: this one says so, and may have
 * told that node other bytes than us, so it counts for no other registry. Any thread. */
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
	uint32_t first; /* block of the map; piece 0 of the layer */
	struct layer_file *file;
	struct source *registry; /* its stored bytes */
};

struct image_swarms;
struct origins;

struct pulled {
	struct origins *origins;
	struct image_swarms *peers; /* NULL: the registry gives all of it */
	uint64_t most;              /* bytes that its layers may have */
	struct liars *liars;
	char *host, *repo; /* as containerd says */
	struct digest manifest;
	struct origin *origin;
	void *map_bytes; /* what `map` views */
	struct blockmap map;
	struct p2p_image *p2p; /* NULL: no peers */
	struct pulled_layer *layers;
	size_t n_layers;
};

/* Have the manifest, and be in the swarm of its layers.  Blocks, until `pace` ends it.  -ENOTSUP:
 * it is none of an image, or not one for a mirror. */
int pulled_open(struct pulled *p, struct pace *pace,
		struct error *err) MUST_CHECK;
/* Leave the swarm, with all files; zeroed is allowed.  Blocks. */
void pulled_close(struct pulled *p);

#endif
