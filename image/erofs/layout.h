// SPDX-License-Identifier: Apache-2.0
/*
 * Decides where everything of a tree lies in the image. After layout_new(), inode.user is the
 * nid, and inode.user_ptr the next inode in the image.
 */
#ifndef BOOTSEER_IMAGE_EROFS_LAYOUT_H
#define BOOTSEER_IMAGE_EROFS_LAYOUT_H

#include "image/erofs/erofs.h"
#include "image/erofs/xattr_table.h"

/* How one inode is stored.  Cheap to compute, so it is not kept. */
struct inode_plan {
	uint8_t layout;    /* EROFS_LAYOUT_* */
	uint8_t chunkbits; /* for CHUNK_BASED */
	uint32_t xattr_size;
	uint64_t size;     /* i_size */
	uint32_t tail;     /* bytes of content behind the xattrs */
	uint64_t n_blocks; /* whole blocks of content, elsewhere */
	uint64_t n_chunks; /* for CHUNK_BASED */
	uint64_t n_holes;  /* chunks that are holes */
	uint32_t blkaddr;  /* for FLAT_PLAIN in a device */
	uint64_t need;     /* bytes at the inode's own place */
};

/* Whole blocks with the content of a folder, symlink or inline file. */
struct block_run {
	struct inode *inode;
	uint64_t pos; /* byte in the image */
};

/* Limit for the chunks of holes in one image: 32 MiB of index. The number of data chunks is
 * bounded by the data; that of holes only by this limit. */
#define LAYOUT_HOLES_MAX (UINT64_C(4) << 20)

struct layout {
	struct tree *tree;
	const struct erofs_params *params;
	struct xattr_table xattrs;
	struct inode *first; /* list in the order of the image */
	uint64_t n_inodes;
	uint64_t end;           /* byte behind inodes and their blocks */
	struct block_run *runs; /* in the order of the image */
	struct block_run *runs_by_nid;
	size_t n_runs, cap_runs;
	uint64_t n_holes; /* chunks of holes in all indexes */
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

/* Byte at which the inode's run of blocks begins; 0 when it has none. */
uint64_t layout_run_pos(const struct layout *l, const struct inode *i);

/* Byte where the shared xattrs start, and the size of the image. */
uint64_t layout_shared_pos(const struct layout *l);
uint64_t layout_size(const struct layout *l);

#endif
