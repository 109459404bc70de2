// SPDX-License-Identifier: Apache-2.0
/* Brings a layer into its file: from peers and the registry, or by parallel ranges from the
 * registry alone; and has what peers sent proved by the digest of the whole. */
#ifndef BOOTSEER_NODE_MIRROR_LAYER_TRANSFER_H
#define BOOTSEER_NODE_MIRROR_LAYER_TRANSFER_H

#include "objects/source.h"
#include "p2p/p2p.h"
#include "snapshotter/node/mirror/layer_file.h"

/* A single connection seldom fills a link: registries and their stores bound each. */
#define LAYER_STREAMS_MAX 8u
#define LAYER_RANGE_PIECES 8u /* read by a request */

struct layer_transfer {
	struct layer_file *file;
	uint64_t size;
	struct source *registry;     /* the stored bytes of the layer */
	struct p2p_image *p2p;       /* NULL: no peers */
	uint32_t first;              /* block of its map that is piece 0 */
	struct pace *pace;           /* of reads without peers ... */
	unsigned int streams;        /* ... so many beside each other */
	const volatile bool *cancel; /* ends it, soon */
	/* Something of it came; any thread. */
	void (*moved)(void *arg);
	/* That node sent a wrong piece. */
	void (*liar)(void *arg, const char *node);
	void *arg;
};

/* Blocks until the layer is whole and verified, or cannot be.  -EBADMSG: the registry itself
 * sends other bytes than the digest says. */
int layer_transfer_run(struct layer_transfer *l, struct error *err) MUST_CHECK;

#endif
