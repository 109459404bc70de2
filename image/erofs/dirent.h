// SPDX-License-Identifier: Apache-2.0
/* A folder's entries as EROFS stores them: sorted, cut into blocks. */
#ifndef BOOTSEER_IMAGE_EROFS_DIRENT_H
#define BOOTSEER_IMAGE_EROFS_DIRENT_H

#include "image/erofs/erofs.h"

struct dirent_iter {
	const struct inode *dir; /* its children are sorted by name */
	const struct dentry *next;
	unsigned int n_dots; /* how many of "." and ".." were given already */
};

void dirent_iter_init(struct dirent_iter *it, const struct inode *dir);

/*
 * Fill one block with the entries from the iterator's place on, and move the iterator behind
 * them; nids come from inode.user. With `block` NULL the entries are only measured. Returns the
 * bytes used, 0 at the end.
 */
size_t dirent_block(struct dirent_iter *it, uint8_t *block);

/* Bytes of all blocks of a folder; every block but the last counts EROFS_BLOCK. */
uint64_t dirent_size(const struct inode *dir);

#endif
