// SPDX-License-Identifier: Apache-2.0
/* Fetches a layer into its file: from peers and the registry, or by parallel ranges from the
 * registry alone.  What peers sent is verified by the digest of the whole layer. */
#ifndef BOOTSEER_NODE_MIRROR_LAYER_TRANSFER_H
#define BOOTSEER_NODE_MIRROR_LAYER_TRANSFER_H

#include "objects/source.h"
#include "p2p/p2p.h"
#include "snapshotter/node/mirror/layer_file.h"

/* Connections for one layer: a single one seldom fills the link, since registries and their
 * storage limit each. */
#define LAYER_STREAMS_MAX 8u
#define LAYER_RANGE_PIECES 8u /* pieces that one request reads */

struct layer_transfer {
	struct layer_file *file;
	uint64_t size;
	struct source *registry; /* the stored bytes of the layer */
	struct p2p_image *p2p;   /* NULL: no peers */
	/* block of the swarm's map that is piece 0 */
	uint32_t first;
	struct pace *pace;           /* pace of reads without peers */
	unsigned int streams;        /* reads without peers at once */
	const volatile bool *cancel; /* true: end the transfer soon */
	/* Called when a part of the layer came; any thread. */
	void (*moved)(void *arg);
	/* Called when the peer `node` proved to have sent a wrong piece. */
	void (*liar)(void *arg, const char *node);
	void *arg;
};

/* Blocks until the layer is whole and verified, or cannot be.  -EBADMSG: the registry itself
 * sends other bytes than the digest says. */
int layer_transfer_run(struct layer_transfer *l, struct error *err) MUST_CHECK;

#endif
