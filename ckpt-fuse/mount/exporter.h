// SPDX-License-Identifier: Apache-2.0
/* The figures of a mount over HTTP, by a thread of its own. */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_EXPORTER_H
#define BOOTSEER_CKPT_FUSE_MOUNT_EXPORTER_H

#include "ckpt-fuse/mount/mount.h"

struct exporter;

/* At "address:port"; `m` is borrowed. */
int exporter_new(const char *at, struct ckpt_mount *m, struct exporter **ret,
		 struct error *err) MUST_CHECK;
/* The port that it listens at: the kernel's choice where `at` had port 0. */
unsigned int exporter_port(const struct exporter *e);
void exporter_free(struct exporter *e); /* NULL is allowed */

#endif
