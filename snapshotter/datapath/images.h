// SPDX-License-Identifier: Apache-2.0
/*
 * The images that a FUSE session serves, found by node ids, with a count of requests under way,
 * so that an image is removed only when no request reads it.
 */
#ifndef BOOTSEER_DATAPATH_IMAGES_H
#define BOOTSEER_DATAPATH_IMAGES_H

#include "fuse/fuse.h"
#include "snapshotter/datapath.h"

/*
 * A node id is (index + 1) << NODE_LOCAL_BITS | local: it tells its image without a table, even
 * in a process that never gave it out. Id 1 (FUSE's root) belongs to no image.
 */
#define NODE_LOCAL_BITS 40
#define NODE_LOCAL_MASK ((UINT64_C(1) << NODE_LOCAL_BITS) - 1)
#define IMAGE_INDEX_MAX ((UINT64_C(1) << (63 - NODE_LOCAL_BITS)) - 2)
#define NODE_ROOT 1u

static inline uint64_t node_id(uint64_t index, uint64_t local)
{
	return (index + 1) << NODE_LOCAL_BITS | local;
}

static inline bool node_is_image(uint64_t node)
{
	return node >> NODE_LOCAL_BITS != 0;
}

static inline uint64_t node_index(uint64_t node)
{
	return (node >> NODE_LOCAL_BITS) - 1;
}

struct image_table;

/* An image that is served; valid while a reference is held. */
struct image_entry {
	struct datapath_image *img;
	/* private data of the caller that added the image */
	void *priv;
	uint64_t index; /* img->index when it was added */
	/* requests under way; under the table's lock */
	unsigned int refs;
	struct reply_share share; /* its share of the buffers for reads */
};

struct image_table *image_table_new(void) MUST_CHECK;
void image_table_free(struct image_table *t);
DEFINE_AUTO(image_table)

/* Add an image.  -EEXIST: the index belongs to another image; -EALREADY: this image was added
 * before; -EINVAL: the index is too large for node ids. */
int image_table_add(struct image_table *t, struct datapath_image *img,
		    void *priv, struct error *err) MUST_CHECK;

/* Remove the image, wait for its requests under way, and return its priv in *ret_priv (may be
 * NULL).  -ENOENT: it is not in the table. */
int image_table_remove(struct image_table *t, uint64_t index, void **ret_priv);

/* Take a reference of the image, or NULL.  Any thread. */
struct image_entry *image_get(struct image_table *t, uint64_t index) MUST_CHECK;
void image_put(struct image_table *t, struct image_entry *e);

size_t image_table_count(struct image_table *t);

/* Parse a name in the session's root as an index: plain decimal. */
int image_index_parse(const char *name, uint64_t *ret) MUST_CHECK;

#endif
