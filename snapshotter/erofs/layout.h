// SPDX-License-Identifier: Apache-2.0
/*
 * Where everything of a tree goes in the image.  After layout_new():
 * inode.user is the nid, inode.user_ptr the inode behind it in the image.
 */
#ifndef BOOTSEER_SNAPSHOTTER_EROFS_LAYOUT_H
#define BOOTSEER_SNAPSHOTTER_EROFS_LAYOUT_H

#include "snapshotter/erofs/erofs.h"
#include "snapshotter/erofs/xattr_table.h"

/* How one inode is stored.  Cheap to compute, so it is not kept. */
struct inode_plan {
	uint8_t layout;      /* EROFS_LAYOUT_* */
	uint8_t chunkbits;   /* CHUNK_BASED */
	uint32_t xattr_size;
	uint64_t size;       /* i_size */
	uint32_t tail;       /* bytes of content behind the xattrs */
	uint64_t n_blocks;   /* blocks of content in the block area */
	uint64_t n_chunks;   /* CHUNK_BASED */
	uint64_t n_holes;    /* of them */
	uint32_t blkaddr;    /* FLAT_PLAIN in a device */
	uint64_t need;       /* bytes at the inode's own place */
};

struct layout {
	struct tree *tree;
	const struct erofs_params *params;
	struct xattr_table xattrs;
	struct inode *first;   /* list in the order of the image */
	struct inode *last;
	uint64_t n_inodes;
	uint64_t end;          /* byte behind the last inode */
	uint64_t n_blocks;     /* in the block area */
	uint64_t n_holes;      /* chunks of holes in all indexes */
	/* First block of each device in the address space that FLAT_PLAIN
	 * files use; 0 when it does not fit into 32 bits. */
	uint32_t mapped[EROFS_DEVICES_MAX];
};

void layout_free(struct layout *l);
DEFINE_AUTO(layout)

int layout_new(struct tree *t, const struct erofs_params *params,
	       struct layout **ret, struct error *err) MUST_CHECK;

int layout_plan(struct layout *l, const struct inode *i, struct inode_plan *ret,
		struct error *err) MUST_CHECK;

/* Byte where the block area starts, where the shared xattrs start, and the
 * size of the image. */
uint64_t layout_blocks_pos(const struct layout *l);
uint64_t layout_shared_pos(const struct layout *l);
uint64_t layout_size(const struct layout *l);

/* Bytes of superblock and device table: where inodes start. */
uint64_t layout_head_size(const struct layout *l);

#endif
