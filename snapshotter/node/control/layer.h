// SPDX-License-Identifier: Apache-2.0
/* Ordinary layers of an image that is on the node, for containerd. */
#ifndef BOOTSEER_NODE_LAYER_H
#define BOOTSEER_NODE_LAYER_H

#include "snapshotter/node/control/node.h"
#include "snapshotter/node/control/resolve.h"

/* Where a layer is unpacked, and the folders of those below it from the top
 * down; struct unpack_options. */
struct layer_place {
	const char *dir;
	const char **lower; /* NULL: it was not said */
	size_t n_lower;
	/* Chain id of the layer and those below it, by the image's config;
	 * NULL: not checked. */
	const struct digest *chain_id;
};

int layer_apply(struct node *n, const struct image_query *q, size_t layer,
		const struct layer_place *place, uint64_t *ret_bytes,
		struct error *err) MUST_CHECK;

struct layer_content {
	struct digest diff_id;
	uint64_t bytes; /* unpacked */
};

/* Unpack a layer out of containerd's content store into an empty folder, which is locked (flock(2))
 * meanwhile.  `sync`: have it on the disk.  -ENOTSUP for what is no tar; -ENOTEMPTY: somebody else
 * is at work there. */
int layer_unpack(struct node *n, const struct oci_descriptor *d,
		 const struct layer_place *place, bool sync, struct pace *pace,
		 struct layer_content *ret, struct error *err) MUST_CHECK;

#endif
