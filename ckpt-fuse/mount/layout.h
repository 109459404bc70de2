// SPDX-License-Identifier: Apache-2.0
/* Attributes that the store keeps of a node, and the columns that a folder asks for by one of
 * them, for the files that are made in it.  With no lock of the node. */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_LAYOUT_H
#define BOOTSEER_CKPT_FUSE_MOUNT_LAYOUT_H

#include "ckpt-fuse/mount/mount.h"

#define LAYOUT_OWN_PREFIX "user.bootseer."
#define LAYOUT_COLUMNS_NAME LAYOUT_OWN_PREFIX "columns"
#define LAYOUT_COLUMNS_MOST 64u

/* Extended attributes of the node, as the next commit has them. */
int layout_load_kept(struct ckpt_mount *m, struct ckpt_node *n, struct buf *ret,
		     struct error *err) MUST_CHECK;
/* 1 to 64, as text; 0: it is something else. */
uint32_t layout_parse_columns(const void *value, size_t len);
/* Columns that the folder of a file asks for; 0: it does not. */
int layout_columns(struct ckpt_mount *m, struct ckpt_node *n,
		   uint32_t *ret_columns, struct error *err) MUST_CHECK;
/* A folder that was just made has what the one that it is in asks for. */
int layout_inherit(struct ckpt_mount *m, struct ckpt_node *from,
		   const char *path, struct error *err) MUST_CHECK;

#endif
