// SPDX-License-Identifier: Apache-2.0
/* A folder on disk as a tree, for tests and measurements of the EROFS code. */
#ifndef BOOTSEER_TESTS_SCAN_H
#define BOOTSEER_TESTS_SCAN_H

#include "image/tree.h"

struct scan {
	struct tree *tree;
	int data_fd;         /* file contents are appended here; -1: none */
	uint64_t data_len;   /* multiple of 4096 */
	uint64_t inline_max; /* files up to here are kept in the tree */
	struct scan_link *links;
};

/* Everything under `path`, attributes and xattrs included; 0 or -errno.
 * inode.user is the number of links that the file system claims. */
int scan_tree(struct scan *s, const char *path) MUST_CHECK;
void scan_fini(struct scan *s); /* the tree too */

#endif
