// SPDX-License-Identifier: Apache-2.0
/*
 * One ordinary layer into a folder, as overlayfs wants it: a whiteout is a
 * character device 0/0, an opaque folder has trusted.overlay.opaque=y (Linux,
 * Documentation/filesystems/overlayfs.rst).  Nothing outside of the folder is
 * touched, whatever names and links the layer has.
 */
#ifndef BOOTSEER_NODE_UNPACK_H
#define BOOTSEER_NODE_UNPACK_H

#include "snapshotter/convert/tar.h"

#define UNPACK_FOLDERS_MAX (1u << 20) /* of one layer */

struct unpack;

/* `dir` exists and is empty. */
int unpack_new(const char *dir, struct unpack **ret,
	       struct error *err) MUST_CHECK;
void unpack_free(struct unpack *u);
DEFINE_AUTO(unpack)

/* What tar_walk() feeds; borrowed. */
struct tar_visitor *unpack_visitor(struct unpack *u);

/* After the last entry: times of folders, then all of it on the disk. */
int unpack_finish(struct unpack *u, struct error *err) MUST_CHECK;

#endif
