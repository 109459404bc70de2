// SPDX-License-Identifier: Apache-2.0
/*
 * Unpacks an ordinary layer into a folder, as overlayfs wants it: a whiteout is a
 * character device 0/0, an opaque folder has trusted.overlay.opaque=y (Linux,
 * Documentation/filesystems/overlayfs.rst).  Nothing outside of the folder is
 * touched, whatever names and links the layer has.
 */
#ifndef BOOTSEER_NODE_UNPACK_H
#define BOOTSEER_NODE_UNPACK_H

#include "snapshotter/convert/tar.h"

#define UNPACK_LOWER_MAX 512u /* layers below one */
/* Names that one layer may have looked up in folders.  A folder that it implies
 * counts as several.  Layers of real images need some for each entry. */
#define UNPACK_STEPS_MAX (UINT64_C(1) << 27)

struct pace;
struct unpack;

struct unpack_options {
	/* Folders of the layers below, from the top down, unpacked already: a
	 * folder that no entry describes gets owner, mode, time and xattrs from
	 * there, as overlayfs shows the upper one's only, and a whiteout is made
	 * only of what they show.  NULL: nobody knows what is below, so every
	 * whiteout is made. */
	const char *const *lower;
	size_t n_lower;
	/* The root is as it was made, whatever the layer or those below say of it. */
	bool keeps_root;
	struct pace *pace;  /* may be NULL; PACE_STOP is -ECANCELED soon */
	uint64_t steps_max; /* 0: UNPACK_STEPS_MAX */
};

/* `dir` exists and is empty.  `options` are not needed afterwards, but for the
 * pace.  -errno. */
int unpack_new(const char *dir, const struct unpack_options *options,
	       struct unpack **ret, struct error *err) MUST_CHECK;
void unpack_free(struct unpack *u);
DEFINE_AUTO(unpack)

/* The visitor for tar_walk(); borrowed. */
struct tar_visitor *unpack_visitor(struct unpack *u);

/* After the last entry: all of it on the disk. */
int unpack_finish(struct unpack *u, struct error *err) MUST_CHECK;

#endif
