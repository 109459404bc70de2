// SPDX-License-Identifier: Apache-2.0
/*
 * Opens and closes a node's file for reading. A reader keeps the version that existed when it
 * opened the file; if none was committed yet, it reads what the writers have, until one of them
 * begins anew. Call without the node's locks unless stated.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_READERS_H
#define BOOTSEER_CKPT_FUSE_MOUNT_READERS_H

#include "ckpt-fuse/mount/handles.h"
#include "ckpt-fuse/mount/mount.h"

/* Open the file for a handle, which is not added yet. -ESTALE: look the name up again; -ENOENT: the
 * file is gone. */
int readers_open(struct ckpt_mount *m, struct ckpt_node *n, struct handle *h,
		 struct error *err) MUST_CHECK;
/* Close the file for a handle that is not a peeker. */
void readers_end(struct ckpt_node *n, const struct handle *h);
/* Call when a handle first reads: the kernel has dropped the pages of another version. */
void readers_have_pages(struct handle *h);

/* Open the version of the previous process's readers, if it still exists. Called with the node's
 * lock held. */
int readers_use_kept(struct ckpt_mount *m, struct ckpt_node *n,
		     struct error *err) MUST_CHECK;
/* Keep the readers' version; call with the node's lock held, before the name is given to another
 * file or removed. */
int readers_keep(struct ckpt_mount *m, struct ckpt_node *n,
		 struct error *err) MUST_CHECK;

#endif
