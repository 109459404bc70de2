// SPDX-License-Identifier: Apache-2.0
/* Mounts of `bootseer image record`, each for one user alone. */
#ifndef BOOTSEER_NODE_RECORD_H
#define BOOTSEER_NODE_RECORD_H

#include "snapshotter/node/images/images.h"
#include "snapshotter/node/remote_call.h"
#include "snapshotter/node/starts/mount.h"

struct recordings;

/* Mounts for recordings only: gone with this process.  `of` as of `mounts`, which is
 * borrowed. */
int recordings_open(const struct mounts_of *of, struct mounts *mounts,
		    struct recordings **ret, struct error *err) MUST_CHECK;
void recordings_close(struct recordings *r); /* NULL is allowed */

/* The image that `user` wants to record; all is borrowed. */
struct record_request {
	struct image *image;
	const char *user, *workload; /* workload: NULL, of the image's config */
	int64_t window_ns;           /* 0: the time of --record */
	struct remote_call *call;
};
struct record_reply {
	char *path; /* the caller's */
	uint64_t start;
};

/* Mount the image for `user` alone and watch its start.  -EBUSY: the user has
 * such a mount; -EAGAIN: there are too many; -EINPROGRESS as of mounts_mount(). */
int recordings_begin(struct recordings *all, const struct record_request *q,
		     struct record_reply *ret, struct error *err) MUST_CHECK;

/* Take the user's down.  `*ret_was`: there was one.  -EBUSY: it is in use. */
int recordings_end(struct recordings *all, const char *user, bool *ret_was,
		   struct error *err) MUST_CHECK;

#endif
