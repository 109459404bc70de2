// SPDX-License-Identifier: Apache-2.0
/* Mounts of `bootseer image record`, each for one user alone. */
#ifndef BOOTSEER_NODE_RECORD_H
#define BOOTSEER_NODE_RECORD_H

#include "snapshotter/node/images/images.h"
#include "snapshotter/node/remote_call.h"
#include "snapshotter/node/starts/mount.h"

struct recordings;

/* Open the table of recordings' mounts, which end with this process.  `of` is that of `mounts`,
 * which is borrowed. */
int recordings_open(const struct mounts_of *of, struct mounts *mounts,
		    struct recordings **ret, struct error *err) MUST_CHECK;
void recordings_close(struct recordings *r); /* NULL is allowed */

/* The image that `user` wants to record; all is borrowed. */
struct record_request {
	struct image *image;
	/* workload: NULL: that of the image's config */
	const char *user, *workload;
	int64_t window_ns; /* 0: the time of --record */
	struct remote_call *call;
};
struct record_reply {
	char *path; /* the caller's */
	uint64_t start;
};

/* Mount the image for `user` alone and watch the start.  -EBUSY: the user has a recording;
 * -EAGAIN: there are too many; -EINPROGRESS as mounts_mount(). */
int recordings_begin(struct recordings *all, const struct record_request *q,
		     struct record_reply *ret, struct error *err) MUST_CHECK;

/* Unmount the user's recording.  `*ret_was`: there was one.  -EBUSY: it is in use. */
int recordings_end(struct recordings *all, const char *user, bool *ret_was,
		   struct error *err) MUST_CHECK;

#endif
