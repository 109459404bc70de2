// SPDX-License-Identifier: Apache-2.0
/* Resolves paths in a metadata image as a process in a container would: symbolic links
 * cannot lead out of the image. No I/O. */
#ifndef BOOTSEER_IMAGE_CLOSURE_ROOTFS_H
#define BOOTSEER_IMAGE_CLOSURE_ROOTFS_H

#include "image/erofs/erofs.h"

#define ROOTFS_PATH_MAX 4095u

struct rootfs_file {
	struct erofs_inode inode;
	char path[ROOTFS_PATH_MAX + 1]; /* without links, "/usr/bin/env" */
	unsigned int
		/* names that were looked up, whether they exist or not */
		n_steps;
};

/* Find `path`, which begins at the root with or without a '/', following all links.
 * -ENOENT: there is no such file, or its links are too many or too long. */
int rootfs_find(const struct erofs_image *img, const char *path,
		struct rootfs_file *ret, struct error *err) MUST_CHECK;

#endif
