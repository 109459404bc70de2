// SPDX-License-Identifier: Apache-2.0
/* Differences between two scans, as a tree that image/ can store. */
#ifndef BOOTSEER_ENVCACHE_CHANGES_H
#define BOOTSEER_ENVCACHE_CHANGES_H

#include "envcache/scan.h"
#include "image/tree.h"

/* A regular file whose content and extended attributes are to be read. */
struct changed_file {
	struct inode *inode;
	const struct env_entry *entry; /* from the scan after the command */
};

struct changes {
	struct tree *tree; /* from "/": with the folders above targets */
	struct changed_file *files;
	size_t n_files, cap;
	uint64_t n_changed, n_deleted, bytes;
};

/*
 * Find the differences.  `after` is borrowed until changes_fini().  A file that both scans have,
 * and whose hash is in `before`, is hashed again.
 *   -ESTALE   something changed meanwhile: scan again
 *   -ENOTSUP  a device that looks like a whiteout, or a removed target
 */
int changes_find(const struct env_scan *before, const struct env_scan *after,
		 const struct env_targets *t, struct changes *ret,
		 struct error *err) MUST_CHECK;
void changes_fini(struct changes *c);

/* Is it a whiteout, the mark of a deleted name? */
bool change_is_whiteout(const struct inode *i);

#endif
