// SPDX-License-Identifier: Apache-2.0
/* Shared by the files of the checker. */
#ifndef BOOTSEER_IMAGE_EROFS_CHECK_H
#define BOOTSEER_IMAGE_EROFS_CHECK_H

#include "image/erofs/erofs.h"

/* A folder that has a name, and whose entries are still to be checked. */
struct check_dir {
	uint64_t nid, parent;
	unsigned int depth; /* folders around it */
};

struct checker {
	const struct erofs_image *img;
	struct error *err;
	uint64_t *used;   /* one bit for 4 bytes: they belong to something */
	uint64_t *shared; /* one bit for 4 bytes of the shared xattrs: an entry
	                   * begins here */
	uint32_t *links;  /* by nid: 0 not met yet, else 1 + the names that its
	                   * link count still promises */
	uint64_t n_nids;
	uint64_t n_inodes; /* met */
	struct check_dir *dirs;
	size_t n_dirs, cap_dirs;
	unsigned int depth; /* of the folders that are met now */
};

/* -EINVAL with "EROFS inode NID: WHAT". */
int check_bad(struct checker *c, uint64_t nid, const char *what);

/* Bytes [pos, pos + len) of the image, `pos` a multiple of four, belong to inode
 * `nid` (0: to the image) alone; up to the next multiple of four they are 0.
 * -EINVAL. */
int check_claim(struct checker *c, uint64_t nid, uint64_t pos,
		uint64_t len) MUST_CHECK;

/* Are these bytes zero? */
bool check_is_zero(const uint8_t *p, size_t len);

/* The area of the shared xattrs, before any inode. */
int check_shared_xattrs(struct checker *c) MUST_CHECK;

/* The xattrs of one inode, whose bytes are claimed. */
int check_xattrs(struct checker *c, const struct erofs_inode *i) MUST_CHECK;

#endif
