// SPDX-License-Identifier: Apache-2.0
/* The operations of the plain FUSE path; its mounts are in plain_fuse.c. */
#ifndef BOOTSEER_DATAPATH_PLAIN_H
#define BOOTSEER_DATAPATH_PLAIN_H

#include <stdatomic.h>

#include "image/erofs/erofs.h"
#include "snapshotter/datapath/image_session.h"

/* image_entry.priv */
struct plain_image {
	struct erofs_image erofs;
	void *map; /* the metadata file */
	size_t len;
	uint32_t generation; /* of its inodes, for the kernel; never 0 */
};

/* image_session.priv */
struct plain_counts {
	atomic_uint_fast64_t xattr_requests;
};

extern const struct session_handler plain_handler;
/* For images without xattrs: ENOSYS to the first question, after which the kernel asks
 * no more; a list of names is empty and no error. */
extern const struct session_handler plain_no_xattr_handler;

#endif
