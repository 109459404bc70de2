// SPDX-License-Identifier: Apache-2.0
/* Move files from a staging folder to their places in the target. */
#ifndef BOOTSEER_ENVCACHE_PLACE_H
#define BOOTSEER_ENVCACHE_PLACE_H

#include "envcache/unpack_plan.h"
#include "envcache/stage.h"

#define PLACE_PATH_MAX 4096

struct placing {
	struct unpack_plan *plan;
	struct tree *tree;    /* owns the paths in user_ptr */
	struct stage *stages; /* the stages of all targets */
	bool merges;          /* files that appeared since merge_prune() stay */
};

/* Create in the stage all folders that the target lacks, empty; call it before nodes are made. */
int place_prepare(struct placing *p, size_t target,
		  struct error *err) MUST_CHECK;

/* The path of a node, relative to the folder `new` of its target's stage: inside its own folder if
 * that is built there. */
void place_node_path(const struct unpack_plan *plan, uint32_t node,
		     char ret[PLACE_PATH_MAX]);

/* Set length, owner, permissions, attributes and times of an open file; not for symlinks. */
int place_attributes(int fd, const struct inode *i,
		     struct error *err) MUST_CHECK;
/* Make a symlink, FIFO or device in the stage, with all attributes. */
int place_special(const struct stage *s, const char *path,
		  const struct inode *i, struct error *err) MUST_CHECK;

/* Call these three in this order, each for all targets. */
int place_things(struct placing *p, size_t target,
		 struct error *err) MUST_CHECK;
int place_deletions(struct placing *p, size_t target,
		    struct error *err) MUST_CHECK;
int place_folder_attributes(struct placing *p, size_t target,
			    struct error *err) MUST_CHECK;

/* Set the target's time again, after later changes. */
void place_times(int fd, const struct inode *i);

#endif
