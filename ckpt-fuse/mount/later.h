// SPDX-License-Identifier: Apache-2.0
/*
 * Commits files after their close (--close=buffered). Each is committed on a thread of its own
 * pool, and stays open for writing until then.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_LATER_H
#define BOOTSEER_CKPT_FUSE_MOUNT_LATER_H

#include "ckpt-fuse/mount/nodes.h"

struct later;

/* Called with the node's lock held when the closed bytes are stored or lost: the commit no longer
 * counts as a writer of the node. */
typedef void later_writer_end_fn(struct ckpt_node *n);

int later_new(later_writer_end_fn *writer_end, struct later **ret,
	      struct error *err) MUST_CHECK;
/* Wait for all commits, and free `l`. */
void later_free(struct later *l);

/* Queue a commit of the node's file; it is repeated as long as there are bytes to commit and the
 * file is not open. False: memory is short. Called with the node's lock held. */
bool later_commit(struct later *l, struct ckpt_node *n) MUST_CHECK;

#endif
