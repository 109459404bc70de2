// SPDX-License-Identifier: Apache-2.0
/* Things from a staging folder to their places in the target. */
#ifndef BOOTSEER_ENVCACHE_PLACE_H
#define BOOTSEER_ENVCACHE_PLACE_H

#include "envcache/unpack_plan.h"
#include "envcache/stage.h"

#define PLACE_NODE_NAME 16

struct placing {
	struct unpack_plan *plan;
	struct stage *stages; /* of all targets */
};

/* The name of a node in the folder `new` of its target's stage. */
void place_node_name(uint32_t node, char ret[PLACE_NODE_NAME]);

/* Owner, permissions, attributes and times of what is open; not for symlinks. */
int place_attributes(int fd, const struct inode *i,
		     struct error *err) MUST_CHECK;
/* Make a symlink, FIFO or device in the stage, with all attributes. */
int place_special(struct stage *s, uint32_t node, const struct inode *i,
		  struct error *err) MUST_CHECK;

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
