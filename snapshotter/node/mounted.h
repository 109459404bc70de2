// SPDX-License-Identifier: Apache-2.0
/* One mount of an image: what mount.c and record.c have in common. */
#ifndef BOOTSEER_NODE_MOUNTED_H
#define BOOTSEER_NODE_MOUNTED_H

#include "snapshotter/node/complete.h"
#include "snapshotter/node/node.h"

struct peer_image;

struct mounted {
	struct node *node;
	char *label;
	char *meta_path;
	struct map_file map_file; /* what `map` views */
	struct blockmap map;
	struct device *device;    /* NULL when complete */
	struct peer_image *peer;  /* a use, or NULL */
	struct complete complete; /* with pins on `map`, when pinned */
	bool pinned;
	bool was_started; /* inside the gate: the page cache is not empty */
	struct datapath_image image; /* for the data path */
	pthread_rwlock_t in_use;     /* read: by those who look at it */
};

/* The image's files, checked, and fetched again when the disk lost them.  The
 * metadata is the caller's to close. */
int mounted_open(struct node *n, struct image *i, struct map_file *ret_meta,
		 struct mounted **ret, struct error *err) MUST_CHECK;
void mounted_free(struct mounted *m); /* unmounted; NULL is allowed */
DEFINE_AUTO(mounted)

/* The lazy mount of an image, which stays until it is released, also when it is
 * unmounted meanwhile; for what is quick and never waits.  NULL: none. */
struct mounted *mounted_hold(struct image *i);
void mounted_release(struct mounted *m); /* NULL is allowed */

/* The device of a lazy mount. */
int mounted_open_device(struct mounted *m, struct image *i,
			struct error *err) MUST_CHECK;

/* The mount point and its folder. */
int mounted_make_dir(const struct mounted *m, struct error *err) MUST_CHECK;

/* Add a mount's figures, before it goes, to the node's totals, which never go
 * back.  Under images_lock(). */
void mounted_keep_stats(const struct mounted *m);

#endif
