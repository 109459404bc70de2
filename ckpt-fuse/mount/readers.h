// SPDX-License-Identifier: Apache-2.0
/*
 * A node's file is opened to be read, and closed.  Whoever reads goes on with the version that was
 * there when it opened the file, or, when nobody has committed one yet, with what its writers have
 * until one of them begins anew.  With no lock of the node, unless said.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_READERS_H
#define BOOTSEER_CKPT_FUSE_MOUNT_READERS_H

#include "ckpt-fuse/mount/handles.h"
#include "ckpt-fuse/mount/mount.h"

/* Have it open to be read by the handle, which is not added yet.  -ESTALE: look the name up
 * again; -ENOENT: it is gone. */
int readers_open(struct ckpt_mount *m, struct ckpt_node *n, struct handle *h,
		 struct error *err) MUST_CHECK;
/* The same handle, which is no peeker, reads no more. */
void readers_end(struct ckpt_node *n, const struct handle *h);
/* A handle reads for the first time: the kernel has dropped the pages of another version. */
void readers_have_pages(struct handle *h);

/* With the node's lock: what a predecessor's readers have is open here, too, if it is
 * there still. */
int readers_use_kept(struct ckpt_mount *m, struct ckpt_node *n,
		     struct error *err) MUST_CHECK;
/* With the node's lock, before another file takes its name, or none. */
int readers_keep(struct ckpt_mount *m, struct ckpt_node *n,
		 struct error *err) MUST_CHECK;

#endif
