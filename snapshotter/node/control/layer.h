// SPDX-License-Identifier: Apache-2.0
/* Ordinary layers of an image that is on the node, for containerd. */
#ifndef BOOTSEER_NODE_LAYER_H
#define BOOTSEER_NODE_LAYER_H

#include "snapshotter/node/control/node.h"
#include "snapshotter/node/control/resolve.h"

/* The folder for a layer's files, and the folders of the layers below it from the top down, as
 * struct unpack_options has them. */
struct layer_place {
	const char *dir;
	const char **lower; /* NULL: the caller did not name them */
	size_t n_lower;
	/* Chain id of the layer with those below it, by the image's config; NULL: not checked. */
	const struct digest *chain_id;
};

int layer_apply(struct node *n, const struct image_query *q, size_t layer,
		const struct layer_place *place, uint64_t *ret_bytes,
		struct error *err) MUST_CHECK;

struct layer_content {
	struct digest diff_id;
	uint64_t bytes; /* unpacked */
};

/* Unpack a layer from containerd's content store into an empty folder, which is locked
 * (flock(2)) meanwhile.  `sync`: write it to the disk before returning.  -ENOTSUP: it is no
 * tar; -ENOTEMPTY: another process is writing there. */
int layer_unpack(struct node *n, const struct oci_descriptor *d,
		 const struct layer_place *place, bool sync, struct pace *pace,
		 struct layer_content *ret, struct error *err) MUST_CHECK;

#endif
