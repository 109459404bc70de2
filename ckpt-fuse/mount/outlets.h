// SPDX-License-Identifier: Apache-2.0
/*
 * Where a mount tells its figures, by HTTP and a loop of its own: a socket in its folder has
 * /status, as JSON, and /metrics, as Prometheus reads it; --metrics has the latter.  Programs
 * that have files open in the mount need neither.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_OUTLETS_H
#define BOOTSEER_CKPT_FUSE_MOUNT_OUTLETS_H

#include "ckpt-fuse/mount/mount.h"

struct outlets;

struct outlets_config {
	struct ckpt_mount *mount; /* borrowed, as the next */
	const char *path;         /* of the mount */
	bool is_adopted; /* it is in use: what cannot be opened is tried again */
};

/* Open all of them.  Of a mount that is adopted this fails only where memory or threads are
 * short; the log says what is not open yet. */
int outlets_new(const struct outlets_config *cfg, struct outlets **ret,
		struct error *err) MUST_CHECK;
/* Close the sockets and end the loop.  NULL is allowed. */
void outlets_free(struct outlets *o);
/* The port of --metrics: the kernel's choice where that has port 0. */
unsigned int outlets_port(const struct outlets *o);

#endif
