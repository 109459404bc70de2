// SPDX-License-Identifier: Apache-2.0
/* The sockets of a mount: whoever connects is told its figures. */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_CONTROL_H
#define BOOTSEER_CKPT_FUSE_MOUNT_CONTROL_H

#include "ckpt-fuse/mount/mount.h"

struct control;

/* Removes what a predecessor left at `socket`.  As JSON, or as Prometheus has them. */
int control_new(const char *socket, struct ckpt_mount *m, const char *path,
		bool is_adopted, bool is_metrics, struct control **ret,
		struct error *err) MUST_CHECK;
void control_free(struct control *c);

#endif
