// SPDX-License-Identifier: Apache-2.0
/* Things from a staging folder to their places in the target. */
#ifndef BOOTSEER_ENVCACHE_PLACE_H
#define BOOTSEER_ENVCACHE_PLACE_H

#include "envcache/unpack_plan.h"
#include "envcache/stage.h"

#define PLACE_PATH_MAX 4096

struct placing {
	struct unpack_plan *plan;
	struct tree *tree;    /* owns what is noted of folders */
	struct stage *stages; /* of all targets */
	bool merges;          /* what came since merge_prune() stays, too */
};

/* Make the folders that are not in the target yet in its stage, empty: before the first
 * node is made. */
int place_prepare(struct placing *p, size_t target,
		  struct error *err) MUST_CHECK;

/* The path of a node from the folder `new` of its target's stage: in the folder that it
 * belongs to where that was made there. */
void place_node_path(const struct unpack_plan *plan, uint32_t node,
		     char ret[PLACE_PATH_MAX]);

/* Length, owner, permissions, attributes and times of what is open; not for symlinks. */
int place_attributes(int fd, const struct inode *i,
		     struct error *err) MUST_CHECK;
/* Make a symlink, FIFO or device in the stage, with all attributes. */
int place_special(const struct stage *s, const char *path,
		  const struct inode *i, struct error *err) MUST_CHECK;

/* In this order, of all targets each. */
int place_things(struct placing *p, size_t target,
		 struct error *err) MUST_CHECK;
int place_deletions(struct placing *p, size_t target,
		    struct error *err) MUST_CHECK;
int place_folder_attributes(struct placing *p, size_t target,
			    struct error *err) MUST_CHECK;

/* The target's time, once more. */
void place_times(int fd, const struct inode *i);

#endif
