// SPDX-License-Identifier: Apache-2.0
/*
 * The plan of a restore, made and checked before the first byte is written: which files to make,
 * and which bytes of which block belong to which file.  Does no I/O.
 */
#ifndef BOOTSEER_ENVCACHE_UNPACK_PLAN_H
#define BOOTSEER_ENVCACHE_UNPACK_PLAN_H

#include "envcache/load.h"

/* A file of any type but folder and whiteout; one node even if it has several names. */
struct unpack_node {
	struct inode *inode;       /* its `user` is the index of this node */
	const struct dentry *name; /* the file's first name */
	uint32_t target;           /* target of the first name */
	uint32_t n_pieces;
};

/* Bytes of a block that belong to a file. */
struct unpack_piece {
	size_t block;  /* index in the block map */
	uint64_t off;  /* position in the file */
	uint32_t from; /* position in the block */
	uint32_t len;
	uint32_t node;
};

struct unpack_plan {
	struct unpack_node *nodes;
	size_t n_nodes, cap_nodes;
	struct unpack_piece *pieces; /* sorted by block */
	size_t n_pieces, cap_pieces;
	struct inode *folders[ENV_TARGETS_MAX]; /* the targets' folders in
	                                         * the tree; NULL: unchanged */
	uint64_t bytes[ENV_TARGETS_MAX];        /* upper bound of disk space
	                                         * needed in each target */
	uint64_t names[ENV_TARGETS_MAX];
};

/* -EBADMSG: the tree has files outside of the targets, or data that is in no block. */
int unpack_plan_make(const struct loaded *l, const struct env_targets *t,
		     struct unpack_plan *ret, struct error *err) MUST_CHECK;
void unpack_plan_fini(struct unpack_plan *p);

/* The number of pieces in a block; *ret_first is the first one's index. */
size_t unpack_plan_pieces(const struct unpack_plan *p, size_t block,
			  size_t *ret_first);

#endif
