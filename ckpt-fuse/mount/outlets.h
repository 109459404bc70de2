// SPDX-License-Identifier: Apache-2.0
/*
 * Serves a mount's figures by HTTP, on a loop of its own: a socket in the mount's folder has
 * /status (JSON) and /metrics (Prometheus); the address of --metrics has /metrics only. Programs
 * that use the mount do not depend on them.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_OUTLETS_H
#define BOOTSEER_CKPT_FUSE_MOUNT_OUTLETS_H

#include "ckpt-fuse/mount/mount.h"

struct outlets;

struct outlets_config {
	struct ckpt_mount *mount; /* mount and path are borrowed */
	const char *path;         /* path of the mount */
	/* the mount is in use: outlets that cannot be opened are retried */
	bool is_adopted;
};

/* Open all outlets. For an adopted mount, this fails only if memory or threads are short; outlets
 * that are not open yet are logged. */
int outlets_new(const struct outlets_config *cfg, struct outlets **ret,
		struct error *err) MUST_CHECK;
/* Close the sockets and end the loop.  NULL is allowed. */
void outlets_free(struct outlets *o);
/* The port of --metrics; if that is 0, the port that the kernel chose. */
unsigned int outlets_port(const struct outlets *o);

#endif
