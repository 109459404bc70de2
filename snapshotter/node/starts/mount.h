// SPDX-License-Identifier: Apache-2.0
/*
 * The mounts of images: one for each image, however many users.  The last step from a
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
/* Nothing serves them any more. */
void mounts_close(struct mounts *all); /* NULL is allowed */

enum mount_why {
	MOUNT_USE, /* somebody wants the files */
	/* Containers will start on it: a recording has to see its reads when there is no
	 * trace. */
	MOUNT_START,
	MOUNT_RESTORE, /* it was there before this process */
};

/* A user's wish for an image; all is borrowed. */
struct mount_request {
	struct image *image;
	const char *user;
	enum mount_why why;
	/* NULL: nothing is waited for but the disk, also not for who works on the image. */
	struct remote_call *call;
};

/*
 * Mount if it is not, and remember the user.  -EINPROGRESS: something has to be waited for,
 * or the registry, for which r->call may not wait.
 */
int mounts_mount(struct mounts *all, const struct mount_request *r,
		 bool *ret_is_complete, struct error *err) MUST_CHECK;
/* Forget the user; unmount after the last.  -EINPROGRESS as above. */
int mounts_umount(struct mounts *all, const struct mount_request *r,
		  bool *ret_was, struct error *err) MUST_CHECK;

/* Mount `m` where it says, for one user alone; the second takes `m` on success. */
int mounts_mount_own(struct mounts *all, struct mounted *m,
		     struct error *err) MUST_CHECK;
int mounts_umount_own(struct mounts *all, struct mounted *m,
		      struct error *err) MUST_CHECK;

/* At start, before anything is answered: mount what has users. */
void mounts_restore(struct mounts *all);
/* At the end, where no successor gets their descriptors: those that need this process. */
void mounts_take_down(struct mounts *all);
/* Before starts_close(): no start has a device any more. */
void mounts_forget_starts(struct mounts *all);

struct mounts_stats {
	uint64_t lazy, complete, adopted, failed;
	struct device_stats past; /* the sums of devices that are gone */
};
void mounts_get_stats(struct mounts *all, struct mounts_stats *ret);

#endif
