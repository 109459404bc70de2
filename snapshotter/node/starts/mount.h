// SPDX-License-Identifier: Apache-2.0
/*
 * The mounts of images: one for each image, however many users.  This is the last step from a
 * reference to a mount (control/prepare.h).  Any thread.
 */
#ifndef BOOTSEER_NODE_MOUNT_H
#define BOOTSEER_NODE_MOUNT_H

#include "snapshotter/node/config.h"
#include "snapshotter/node/images/images.h"
#include "snapshotter/node/remote_call.h"
#include "snapshotter/node/starts/mounted.h"

struct mounts;
struct prefetches;
struct starts;

/* The parts of the node that mounts need; all is borrowed but `opens`. */
struct mounts_of {
	const struct node_config *cfg;
	struct images *images;
	struct datapath *datapath;
	struct prefetches *prefetches;
	struct starts *starts;
	struct mounted_of opens;
};
int mounts_open(const struct mounts_of *of, struct mounts **ret,
		struct error *err) MUST_CHECK;
/* Free the mounts; the data path serves none any more. */
void mounts_close(struct mounts *all); /* NULL is allowed */

enum mount_why {
	MOUNT_USE, /* a user wants the files */
	/* Containers will start on the mount: if there is no trace, a recording has to see its
	 * reads. */
	MOUNT_START,
	MOUNT_RESTORE, /* the mount existed before this process */
};

/* A user's request for an image; all is borrowed. */
struct mount_request {
	struct image *image;
	const char *user;
	enum mount_why why;
	/* NULL: wait for nothing but the disk, not even for other work on the image. */
	struct remote_call *call;
};

/*
 * Mount the image if it is not mounted, and remember the user.  -EINPROGRESS: r->call is NULL
 * and it would have to wait, or would wait for the registry and r->call may not.
 */
int mounts_mount(struct mounts *all, const struct mount_request *r,
		 bool *ret_is_complete, struct error *err) MUST_CHECK;
/* Remove the user; unmount after the last one.  -EINPROGRESS as above. */
int mounts_umount(struct mounts *all, const struct mount_request *r,
		  bool *ret_was, struct error *err) MUST_CHECK;

/* Mount `m` at its own mount point, for one user alone; the second function unmounts it and
 * takes `m` on success. */
int mounts_mount_own(struct mounts *all, struct mounted *m,
		     struct error *err) MUST_CHECK;
int mounts_umount_own(struct mounts *all, struct mounted *m,
		      struct error *err) MUST_CHECK;

/* At start, before any call is answered: mount all images that have users. */
void mounts_restore(struct mounts *all);
/* At the end, if no later bootseerd gets the descriptors: unmount the lazy mounts, which need
 * this process. */
void mounts_take_down(struct mounts *all);
/* Called before starts_close(): starts are not told of mounts any more. */
void mounts_forget_starts(struct mounts *all);

struct mounts_stats {
	uint64_t lazy, complete, adopted, failed;
	struct device_stats past; /* the sums of devices that are gone */
};
void mounts_get_stats(struct mounts *all, struct mounts_stats *ret);

#endif
