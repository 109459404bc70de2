// SPDX-License-Identifier: Apache-2.0
/* Extended attributes of an open file, also one opened with O_PATH. */
#ifndef BOOTSEER_ENVCACHE_XATTRS_H
#define BOOTSEER_ENVCACHE_XATTRS_H

#include "image/tree.h"

/* Read the attributes of `fd` into the inode, except those that the machine itself sets (SELinux
 * labels, IMA, EVM). */
int xattrs_read(int fd, struct tree *t, struct inode *i,
		struct error *err) MUST_CHECK;
/* Write the inode's attributes to the open file. */
int xattrs_write(int fd, const struct inode *i, struct error *err) MUST_CHECK;

#endif
