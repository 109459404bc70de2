// SPDX-License-Identifier: Apache-2.0
/*
 * A folder for one container: an image below, what the container writes above.
 * The mounts are seen by this process and its children alone, so that they go
 * with them, whatever ends them.
 */
#ifndef BOOTSEER_CLI_ROOTFS_H
#define BOOTSEER_CLI_ROOTFS_H

#include <stdbool.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/error.h"

#define ROOTFS_DIR_PREFIX "bootseer."

/* Where such folders are made: $TMPDIR, or /var/tmp. */
const char *rootfs_temp_dir(void);

struct rootfs {
	int lock_fd;  /* of `dir`, locked while we live */
	char *dir;    /* temporary; for the caller's files too */
	char *merged; /* DIR/rootfs, the container's root */
	char *image;  /* where the image is mounted */
};

/* A thread or a second rootfs of this process is not provided for. */
int rootfs_new(const char *image, struct rootfs **ret,
	       struct error *err) MUST_CHECK;

/* Unmount and remove it all.  NULL is allowed. */
void rootfs_free(struct rootfs *r);
DEFINE_AUTO(rootfs)

/* Is this path in it? */
bool rootfs_has(const struct rootfs *r, const char *path);

/* Append a file of the image, links followed within it; nothing when it is not
 * there. */
int rootfs_read(const struct rootfs *r, const char *path, size_t max,
		struct buf *ret, struct error *err) MUST_CHECK;

#endif
