// SPDX-License-Identifier: Apache-2.0
/* An opened image: its checked files and its device, for a mount (mount.c, record.c), or for a
 * prefetch without a mount. */
#ifndef BOOTSEER_NODE_MOUNTED_H
#define BOOTSEER_NODE_MOUNTED_H

#include "snapshotter/datapath.h"
#include "snapshotter/node/images/complete.h"
#include "snapshotter/node/images/images.h"
#include "snapshotter/node/images/origin.h"
#include "snapshotter/node/remote_call.h"

struct image_swarm;
struct image_swarms;
struct keyed_lock;
struct parser;

/* The parts of the node by which an image is opened; all is borrowed. */
struct mounted_of {
	struct cache *cache;
	struct fetcher *fetcher;
	struct origins *origins;
	struct parser *parser;
	struct image_swarms *peers;   /* NULL: no peers */
	struct keyed_lock *gate;      /* serialises work on one image */
	const atomic_bool *is_ending; /* true: the node is ending */
	int64_t prepare_timeout_ns;
};

struct mounted {
	const struct mounted_of *of;
	char *label;
	char hex[IMAGE_HEX_MAX]; /* of the image */
	char *meta_path;
	struct map_file map_file; /* bytes that `map` refers to */
	struct blockmap map;
	struct device *device;    /* NULL for a complete mount */
	struct image_swarm *peer; /* a use, or NULL */
	struct complete complete;
	bool kept; /* the cache keeps its blocks (cache_mount_keep()) */
	/* a container started on it, so the page cache has its files; inside the gate */
	bool was_started;
	struct datapath_image image; /* the mount as the data path knows it */
	pthread_rwlock_t in_use;     /* read-locked by mounted_hold() */
};

/*
 * Open the image's files, checked; fetch them again if the disk lost them.  The caller closes
 * the metadata.  `call` NULL: wait for nothing but the disk.  -EINPROGRESS: the parser or the
 * registry is needed, and `call` may not wait for it.
 */
int mounted_open(const struct mounted_of *of, struct image *i,
		 struct remote_call *call, struct map_file *ret_meta,
		 struct mounted **ret, struct error *err) MUST_CHECK;
/* Enter the image's gate (of->gate, keyed_lock_leave()).  Another call may hold it as long as
 * its registry takes, so without a call, or after a while with one that is_local, -EINPROGRESS. */
int mounted_lock_image(const struct mounted_of *of, const struct image *i,
		       struct remote_call *call, struct error *err) MUST_CHECK;
/* Enter the gate, for work that no other thread would continue: waits long, then -ETIMEDOUT. */
int mounted_lock_image_long(const struct mounted_of *of, const struct image *i,
			    struct remote_call *call,
			    struct error *err) MUST_CHECK;
/* Make a call that waits as long as a prepare may last, and has no caller that could leave. */
void mounted_call_init(const struct mounted_of *of, struct remote_call *ret);
/* to be unmounted before; NULL is allowed */
void mounted_free(struct mounted *m);
DEFINE_AUTO(mounted)

/* Hold the lazy mount of an image, so that it is not freed until it is released, even if
 * unmounted meanwhile; for quick work that never waits.  NULL: there is none. */
struct mounted *mounted_hold(struct image *i);
void mounted_release(struct mounted *m); /* NULL is allowed */

/* Make the device for a lazy mount. */
int mounted_open_device(struct mounted *m, struct image *i,
			struct error *err) MUST_CHECK;
/* Free the device of a mount that was not mounted. */
void mounted_close_device(struct mounted *m);

/* Make the mount point and its folder. */
int mounted_make_dir(const struct mounted *m, struct error *err) MUST_CHECK;

bool mounted_is_complete(const struct mounted *m);
/* Get the device's figures.  False for a complete mount, which has no device. */
bool mounted_stats(const struct mounted *m, struct device_stats *ret);

#endif
