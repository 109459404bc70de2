// SPDX-License-Identifier: Apache-2.0
/*
 * Unpacks an ordinary layer into a folder, as overlayfs wants it: a whiteout is a character
 * device 0/0, an opaque folder has trusted.overlay.opaque=y (Linux,
 * Documentation/filesystems/overlayfs.rst).  Whatever names and links the layer has, nothing
 * outside of the folder is changed.
 */
#ifndef BOOTSEER_NODE_UNPACK_H
#define BOOTSEER_NODE_UNPACK_H

#include "snapshotter/convert/tar.h"

#define UNPACK_LOWER_MAX 512u /* layers below the unpacked one */
/* Limit of the names that are looked up in folders for one layer, against malicious layers.  A
 * folder without an entry of its own counts as several.  Layers of real images need a few for
 * each entry. */
#define UNPACK_STEPS_MAX (UINT64_C(1) << 27)

struct pace;
struct unpack;

struct unpack_options {
	/* Folders of the layers below, from the top down, already unpacked.  A folder without
	 * an entry gets owner, mode, time and xattrs from them, since overlayfs shows the upper
	 * folder's only.  A whiteout is made only of names that they show.  NULL: the layers
	 * below are not known, so every whiteout is made. */
	const char *const *lower;
	size_t n_lower;
	/* Leave the root folder's attributes alone, whatever the layer or the layers below say. */
	bool keeps_root;
	/* may be NULL; PACE_STOP soon ends the work with -ECANCELED */
	struct pace *pace;
	uint64_t steps_max; /* 0: UNPACK_STEPS_MAX */
};

/* `dir` exists and is empty.  Of `options` only the pace is used after the call.  -errno. */
int unpack_new(const char *dir, const struct unpack_options *options,
	       struct unpack **ret, struct error *err) MUST_CHECK;
void unpack_free(struct unpack *u);
DEFINE_AUTO(unpack)

/* The visitor for tar_walk(); borrowed. */
struct tar_visitor *unpack_visitor(struct unpack *u);

/* To be called after the last entry: write all of it to the disk. */
int unpack_finish(struct unpack *u, struct error *err) MUST_CHECK;

#endif
