// SPDX-License-Identifier: Apache-2.0
/*
 * Are two trees the same to every reader?  One comes from an image's layers, the
 * other from an artifact.
 */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_COMPARE_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_COMPARE_H

#include "image/tree.h"
#include "snapshotter/convert.h"
#include "snapshotter/convert/plan.h"

/*
 * Read the files of the plan's tree from its layers, and remember a digest of
 * each: inode.user_ptr of the tree is used for that.
 */
int compare_read_layers(struct plan *p, struct error *err) MUST_CHECK;

/* The arguments of compare_trees(). */
struct compare {
	struct tree *want; /* after compare_read_layers() */
	struct tree *have;
	/* Bytes at `voff` of the device that extents of `have` lie in.  NULL:
	 * content is not compared. */
	int (*read)(void *arg, uint64_t voff, void *buf, size_t len,
		    struct error *err);
	void *arg;
	struct compare_report *report;
};

/*
 * Compare every path, kind, mode, owner, time, extended attribute, link target,
 * device, size, byte, and which names are names of one file.  Behind the end of a
 * file its last page must be zeros, since whoever maps it sees that, too.  Differences
 * are told to the report; they are no failure.  Sorts both trees.
 */
int compare_trees(struct compare *c, struct error *err) MUST_CHECK;

#endif
