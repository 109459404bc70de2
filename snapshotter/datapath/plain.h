// SPDX-License-Identifier: Apache-2.0
/* The operations of the plain FUSE path; its mounts are in plain_fuse.c. */
#ifndef BOOTSEER_DATAPATH_PLAIN_H
#define BOOTSEER_DATAPATH_PLAIN_H

#include <stdatomic.h>

#include "image/erofs/erofs.h"
#include "snapshotter/datapath/image_session.h"

/* The private data (image_entry.priv) of an image on this data path. */
struct plain_image {
	struct erofs_image erofs;
	void *map; /* the metadata file, mapped */
	size_t len;
	/* generation of its inodes for the kernel; never 0 */
	uint32_t generation;
};

/* The private data (image_session.priv) of a session of this data path. */
struct plain_counts {
	atomic_uint_fast64_t xattr_requests;
};

extern const struct session_handler plain_handler;
/* Handler for images without xattrs: the first getxattr is answered ENOSYS, after which the
 * kernel sends no more; listxattr returns an empty list. */
extern const struct session_handler plain_no_xattr_handler;

#endif
