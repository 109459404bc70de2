// SPDX-License-Identifier: Apache-2.0
/*
 * The size of a file as the kernel has it. It cuts at it what programs read, and asks for
 * it once a second at most, so it is told when it would be wrong. Any thread; no lock
 * that is held over a call of the store is taken.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_SIZES_H
#define BOOTSEER_CKPT_FUSE_MOUNT_SIZES_H

#include "ckpt-fuse/mount/nodes.h"
#include "fuse/fuse.h"

/* An answer tells the kernel this size, or that of what the node's readers have, which is
 * returned. */
uint64_t sizes_tell(struct ckpt_node *n, uint64_t size);
/* A file is opened whose size is this, or SIZE_UNKNOWN: the kernel is made to ask for it
 * unless it was told the same last.  Within a request about the node. */
void sizes_open(struct session *s, struct ckpt_node *n, uint64_t size);

/* The node's readers have a version of this size; SIZE_UNKNOWN: it has none, or those that
 * it has do not look at the kernel's size. */
void sizes_set_readers(struct ckpt_node *n, uint64_t size);
/* Have readers of the node, which nobody writes, a version of another size? */
bool sizes_differ(struct ckpt_node *n, uint64_t size);

#endif
