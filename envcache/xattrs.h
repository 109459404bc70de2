// SPDX-License-Identifier: Apache-2.0
/* Extended attributes of what is open, O_PATH included. */
#ifndef BOOTSEER_ENVCACHE_XATTRS_H
#define BOOTSEER_ENVCACHE_XATTRS_H

#include "image/tree.h"

/* Put those of `fd` on the inode; not those that the machine itself puts on files
 * (labels of SELinux, IMA, EVM). */
int xattrs_read(int fd, struct tree *t, struct inode *i,
		struct error *err) MUST_CHECK;
/* The other way round. */
int xattrs_write(int fd, const struct inode *i, struct error *err) MUST_CHECK;

#endif
