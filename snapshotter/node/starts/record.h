// SPDX-License-Identifier: Apache-2.0
/* Mounts of `bootseer image record`, each for one user alone. */
#ifndef BOOTSEER_NODE_RECORD_H
#define BOOTSEER_NODE_RECORD_H

#include "snapshotter/node/images/images.h"
#include "snapshotter/node/node.h"
#include "snapshotter/node/remote_call.h"

/* Mounts for recordings only: gone with this process. */
int recordings_open(struct node *n, struct recordings **ret,
		    struct error *err) MUST_CHECK;
void recordings_close(struct recordings *r); /* NULL is allowed */

struct record_reply {
	char *path; /* the caller's */
	uint64_t start;
};

/* Mount the image for `user` alone and watch its start.  -EBUSY: the user has
 * such a mount; -EAGAIN: there are too many; -EINPROGRESS as of node_mount(). */
int node_record(struct node *n, struct image *i, const char *user,
		const char *workload, int64_t window_ns,
		struct remote_call *call, struct record_reply *ret,
		struct error *err) MUST_CHECK;

/* Take the user's down.  `*ret_was`: there was one.  -EBUSY: it is in use. */
int node_record_end(struct node *n, const char *user, bool *ret_was,
		    struct error *err) MUST_CHECK;

#endif
