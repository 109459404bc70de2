// SPDX-License-Identifier: Apache-2.0
/*
 * Files that were closed and are not in the store yet (--close=buffered): each is
 * committed on a thread of its own choice, and is open to be written until then.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_LATER_H
#define BOOTSEER_CKPT_FUSE_MOUNT_LATER_H

#include "ckpt-fuse/mount/nodes.h"

struct later;

/* Called with the node's lock, when what was closed is stored or lost: the commit is a writer of
 * the node no more. */
typedef void later_writer_end_fn(struct ckpt_node *n);

int later_new(later_writer_end_fn *writer_end, struct later **ret,
	      struct error *err) MUST_CHECK;
/* Waits for all of them. */
void later_free(struct later *l);

/* With the node's lock: commit what it has, later; it goes on as long as there is something to
 * commit that nobody has open.  False: memory is short. */
bool later_commit(struct later *l, struct ckpt_node *n) MUST_CHECK;

#endif
