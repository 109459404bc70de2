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

/* With the node's lock: commit what it has, later.  False: memory is short. */
bool later_commit(struct later *l, struct ckpt_node *n) MUST_CHECK;
/* Wait until what was closed of the node (NULL: of all) by now is in the store or lost; each
 * commit has the store's deadlines.  False: there was nothing to wait for. */
bool later_settle(struct later *l, const struct ckpt_node *n);
/* With the node's lock: is a commit of it on its way, which goes on as long as there is something
 * to commit that nobody has open? */
bool later_commits(struct later *l, const struct ckpt_node *n);
/* Is there something of the node to wait for? */
bool later_has(struct later *l, const struct ckpt_node *n);

/* Commits that are on their way. */
unsigned int later_n_staged(struct later *l);

#endif
