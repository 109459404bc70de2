// SPDX-License-Identifier: Apache-2.0
/*
 * Lists of folders, made ahead of a program that walks a tree: when it lists one folder
 * after another of the same parent, in the order of names, those of the next ones are asked
 * for beside it.  What such a list told is given once, and no later than what lists tell is
 * believed (listed.h).  Any thread.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_AHEAD_H
#define BOOTSEER_CKPT_FUSE_MOUNT_AHEAD_H

#include "ckpt-fuse/mount/handles.h"
#include "net/pool.h"
#include "ckpt-fuse/mount/listed.h"

/* Lists ahead of one walk.  Of ten cold folders of 1,000 names in versitygw two at a time
 * take 0.57 of one after the other, four 0.48, and ten no less. */
#define AHEAD_MOST 4u
#define AHEAD_ALL 8u   /* of all walks, LISTED_SHORT names each */
#define AHEAD_WALKS 8u /* parents that are remembered */
/* Lists that are made at a time: each has all names of its folder in memory. */
#define LISTS_AT_ONCE 8u

struct ahead;

struct ahead_config {
	struct object_store *store;
	struct listed *listed;
	struct pool *pool; /* whose threads ask */
};

int ahead_new(const struct ahead_config *cfg, struct ahead **ret,
	      struct error *err) MUST_CHECK;
void ahead_free(struct ahead *a); /* after pool_free() of its pool */

/* List the folder, from a list made ahead, which is waited for, or from the store, while
 * no more than LISTS_AT_ONCE are made. Lists of folders behind it may be begun. */
int ahead_list(struct ahead *a, const char *folder, struct folder_list *ret,
	       struct error *err) MUST_CHECK;

#endif
