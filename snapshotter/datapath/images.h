// SPDX-License-Identifier: Apache-2.0
/*
 * Which images a FUSE session serves: node ids to images, with a count of the
 * requests under way, so that an image goes only when nobody reads it.
 */
#ifndef BOOTSEER_DATAPATH_IMAGES_H
#define BOOTSEER_DATAPATH_IMAGES_H

#include "fuse/fuse.h"
#include "snapshotter/datapath.h"

/*
 * A node id is (index + 1) << NODE_LOCAL_BITS | local: it says without any
 * table which image it belongs to, also to a process that never gave it out.
 * Id 1 (FUSE's root) belongs to no image.
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
	void *priv;               /* of the one who added it */
	uint64_t index;           /* img->index when it was added */
	unsigned int refs;        /* requests under way; the table's lock */
	struct reply_share share; /* of the buffers for reads */
};

struct image_table *image_table_new(void) MUST_CHECK;
void image_table_free(struct image_table *t);
DEFINE_AUTO(image_table)

/* -EEXIST when the index is taken by another image, -EALREADY when this very
 * image was added before, -EINVAL for an index that node ids cannot hold. */
int image_table_add(struct image_table *t, struct datapath_image *img,
		    void *priv, struct error *err) MUST_CHECK;

/* Take it out, wait for the requests under way, return its priv in *ret_priv
 * (may be NULL).  -ENOENT when it is not there. */
int image_table_remove(struct image_table *t, uint64_t index, void **ret_priv);

/* A reference, or NULL.  Any thread. */
struct image_entry *image_get(struct image_table *t, uint64_t index) MUST_CHECK;
void image_put(struct image_table *t, struct image_entry *e);

size_t image_table_count(struct image_table *t);

/* The index a name in the session's root stands for: plain decimal. */
int image_index_parse(const char *name, uint64_t *ret) MUST_CHECK;

#endif
