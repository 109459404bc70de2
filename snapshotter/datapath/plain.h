// SPDX-License-Identifier: Apache-2.0
/* The operations of the plain FUSE path; its mounts are in plain_fuse.c. */
#ifndef BOOTSEER_DATAPATH_PLAIN_H
#define BOOTSEER_DATAPATH_PLAIN_H

#include "snapshotter/datapath/session.h"
#include "snapshotter/erofs/erofs.h"

/* image_entry.priv */
struct plain_image {
	struct erofs_image erofs;
	void *map; /* the metadata file */
	size_t len;
	uint32_t generation; /* of its inodes, for the kernel; never 0 */
};

extern const struct fuse_lowlevel_ops plain_ops;
void plain_init(struct fuse_conn_info *conn);

#endif
