// SPDX-License-Identifier: Apache-2.0
/*
 * Are two trees the same to every reader?  The first tree comes from an image's layers, the
 * second from an artifact.
 */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_COMPARE_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_COMPARE_H

#include "image/tree.h"
#include "snapshotter/convert.h"
#include "snapshotter/convert/plan.h"

/*
 * Read the files of the plan's tree from its layers, and store a digest of each in
 * inode.user_ptr of the tree.
 */
int compare_read_layers(struct plan *p, struct error *err) MUST_CHECK;

/* The arguments of compare_trees(). */
struct compare {
	struct tree *want; /* the layers' tree, after compare_read_layers() */
	struct tree *have;
	/* Reads bytes at `voff` of the device in which the extents of `have` lie.  NULL:
	 * content is not compared. */
	int (*read)(void *arg, uint64_t voff, void *buf, size_t len,
		    struct error *err);
	void *arg;
	struct compare_report *report;
};

/*
 * Compare every path, kind, mode, owner, time, extended attribute, link target, device, size,
 * byte, and which names lead to the same file.  After the end of a file its last page must be
 * zeros, since a process that maps the file sees them.  Differences go to the report and are no
 * failure.  Sorts both trees.
 */
int compare_trees(struct compare *c, struct error *err) MUST_CHECK;

#endif
