// SPDX-License-Identifier: Apache-2.0
/* The mount of an image that all its users share. */
#ifndef BOOTSEER_NODE_MOUNT_H
#define BOOTSEER_NODE_MOUNT_H

#include "snapshotter/node/images/images.h"
#include "snapshotter/node/node.h"
#include "snapshotter/node/remote_call.h"

/*
 * Mount if it is not, and remember the user.  `for_start`: containers will be
 * started on it, so it is mounted in a way that lets a recording see its reads
 * when there is no trace.  `call` NULL: nothing is waited for but the disk, also not
 * for who works on the image; -EINPROGRESS when something has to be, or the registry
 * and `call` may not wait for it.
 */
int node_mount(struct node *n, struct image *i, const char *user,
	       bool for_start, struct remote_call *call,
	       struct error *err) MUST_CHECK;
/* Forget the user; unmount after the last.  `call` as above. */
int node_umount(struct node *n, struct image *i, const char *user,
		struct remote_call *call, bool *ret_was,
		struct error *err) MUST_CHECK;

/* At start, before anything is answered: mount what has users. */
void node_restore(struct node *n);
/* At the end: leave mounts to a successor where somebody keeps their
 * descriptors until then, else take down those that need this process. */
void node_leave(struct node *n);

#endif
