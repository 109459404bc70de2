// SPDX-License-Identifier: Apache-2.0
/*
 * The plan of a restore, worked out and checked before the first byte is written: the
 * things to make, and which bytes of which block belong to which file. Pure.
 */
#ifndef BOOTSEER_ENVCACHE_UNPACK_PLAN_H
#define BOOTSEER_ENVCACHE_UNPACK_PLAN_H

#include "envcache/load.h"

/* Anything but a folder or a whiteout; once, however many names it has. */
struct unpack_node {
	struct inode *inode;       /* whose `user` is the index of this one */
	const struct dentry *name; /* the first */
	uint32_t target;           /* of its first name */
	uint32_t n_pieces;
};

/* Bytes of a block that are a file's. */
struct unpack_piece {
	size_t block;  /* of the block map */
	uint64_t off;  /* in the file */
	uint32_t from; /* in the block */
	uint32_t len;
	uint32_t node;
};

struct unpack_plan {
	struct unpack_node *nodes;
	size_t n_nodes, cap_nodes;
	struct unpack_piece *pieces; /* sorted by block */
	size_t n_pieces, cap_pieces;
	struct inode *folders[ENV_TARGETS_MAX]; /* the targets' */
	uint64_t bytes[ENV_TARGETS_MAX];        /* of disk, at most */
	uint64_t names[ENV_TARGETS_MAX];
};

/* -EBADMSG: the tree has something outside of the targets, or bytes that are in no
 * block. */
int unpack_plan_make(const struct loaded *l, const struct env_targets *t,
		     struct unpack_plan *ret, struct error *err) MUST_CHECK;
void unpack_plan_fini(struct unpack_plan *p);

/* The pieces of a block: the first one and how many. */
size_t unpack_plan_pieces(const struct unpack_plan *p, size_t block,
			  size_t *ret_first);

#endif
