// SPDX-License-Identifier: Apache-2.0
/*
 * A root folder for one container: an overlay with the image below and a folder for written files
 * above.  Its mounts are in this process's own namespace, so they vanish when it and its children
 * end, however that happens.
 */
#ifndef BOOTSEER_CLI_ROOTFS_H
#define BOOTSEER_CLI_ROOTFS_H

#include <stdbool.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/error.h"

#define ROOTFS_DIR_PREFIX "bootseer."

/* The parent of these folders: $TMPDIR, or /var/tmp. */
const char *rootfs_temp_dir(void);

struct rootfs {
	int lock_fd;  /* lock on `dir`, held while this process lives */
	char *dir;    /* temporary folder; the caller may put files there */
	char *merged; /* DIR/rootfs, the container's root */
	char *image;  /* where the image is mounted */
};

/* Make the root.  Call it once in a process, while that has one thread: the mount namespace that
 * it makes is the calling thread's alone, and other threads would stay in the old one. */
int rootfs_new(const char *image, struct rootfs **ret,
	       struct error *err) MUST_CHECK;

/* Unmount and remove everything.  NULL is allowed. */
void rootfs_free(struct rootfs *r);
DEFINE_AUTO(rootfs)

/* Does this path exist in the container's root? */
bool rootfs_has(const struct rootfs *r, const char *path);

/* Append a file of the image, with links resolved inside it; nothing if it does not exist. */
int rootfs_read(const struct rootfs *r, const char *path, size_t max,
		struct buf *ret, struct error *err) MUST_CHECK;

#endif
