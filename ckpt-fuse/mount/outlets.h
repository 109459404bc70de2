// SPDX-License-Identifier: Apache-2.0
/*
 * Where a mount tells its figures: two sockets in its folder, and --metrics.  Whoever has
 * files open in the mount needs none of them.
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

/* Open all of them.  Of a mount that is adopted this fails only where memory is short; the
 * log says what is not open yet. */
int outlets_new(const struct outlets_config *cfg, struct outlets **ret,
		struct error *err) MUST_CHECK;
/* Nobody is told anything any more.  NULL is allowed. */
void outlets_free(struct outlets *o);

/* Try again what is not open, and was not tried for a while. */
void outlets_retry(struct outlets *o);
/* When outlets_retry() is to be called at the latest, milliseconds from now; -1: all are
 * open. */
int outlets_interval(const struct outlets *o);

#endif
