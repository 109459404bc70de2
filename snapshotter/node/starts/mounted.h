// SPDX-License-Identifier: Apache-2.0
/* The files and the device of an image, opened: for a mount (mount.c, record.c), or for a
 * prefetch, which is mounted nowhere. */
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
	struct image_swarms *peers;   /* or NULL */
	struct keyed_lock *gate;      /* of work on one image */
	const atomic_bool *is_ending; /* the node ends */
	int64_t prepare_timeout_ns;
};

struct mounted {
	const struct mounted_of *of;
	char *label;
	char hex[IMAGE_HEX_MAX]; /* of the image */
	char *meta_path;
	struct map_file map_file; /* what `map` views */
	struct blockmap map;
	struct device *device;    /* NULL when complete */
	struct image_swarm *peer; /* a use, or NULL */
	struct complete complete;
	bool kept;        /* by cache_mount_keep() */
	bool was_started; /* inside the gate: the page cache is not empty */
	struct datapath_image image; /* for the data path */
	pthread_rwlock_t in_use;     /* read: by those who look at it */
};

/*
 * The image's files, checked, and fetched again when the disk lost them.  The
 * metadata is the caller's to close.  `call` NULL: nothing is waited for but the
 * disk.  -EINPROGRESS: the parser or the registry is needed, and may not be waited
 * for by `call`.
 */
int mounted_open(const struct mounted_of *of, struct image *i,
		 struct remote_call *call, struct map_file *ret_meta,
		 struct mounted **ret, struct error *err) MUST_CHECK;
/* Enter the image's gate (of->gate, keyed_lock_leave()), which what somebody else does with
 * the image keeps as long as its registry likes.  Without a call, or after a while with
 * one that is_local, -EINPROGRESS. */
int mounted_lock_image(const struct mounted_of *of, const struct image *i,
		       struct remote_call *call, struct error *err) MUST_CHECK;
/* The same for what no other thread goes on with: -ETIMEDOUT. */
int mounted_lock_image_long(const struct mounted_of *of, const struct image *i,
			    struct remote_call *call,
			    struct error *err) MUST_CHECK;
/* For who waits as long as a prepare may last, whoever leaves. */
void mounted_call_init(const struct mounted_of *of, struct remote_call *ret);
void mounted_free(struct mounted *m); /* unmounted; NULL is allowed */
DEFINE_AUTO(mounted)

/* The lazy mount of an image, which stays until it is released, also when it is
 * unmounted meanwhile; for what is quick and never waits.  NULL: none. */
struct mounted *mounted_hold(struct image *i);
void mounted_release(struct mounted *m); /* NULL is allowed */

/* The device of a lazy mount. */
int mounted_open_device(struct mounted *m, struct image *i,
			struct error *err) MUST_CHECK;
/* Which is mounted nowhere. */
void mounted_close_device(struct mounted *m);

/* The mount point and its folder. */
int mounted_make_dir(const struct mounted *m, struct error *err) MUST_CHECK;

bool mounted_is_complete(const struct mounted *m);
/* False for a complete image, which has no device. */
bool mounted_stats(const struct mounted *m, struct device_stats *ret);

#endif
