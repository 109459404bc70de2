// SPDX-License-Identifier: Apache-2.0
/* Differences between two scans, as a tree that image/ can store. */
#ifndef BOOTSEER_ENVCACHE_CHANGES_H
#define BOOTSEER_ENVCACHE_CHANGES_H

#include "envcache/scan.h"
#include "image/tree.h"

/* A regular file whose content and extended attributes are to be read. */
struct changed_file {
	struct inode *inode;
	const struct env_entry *entry; /* of the scan after */
};

struct changes {
	struct tree *tree; /* from "/": the folders above the targets, too */
	struct changed_file *files;
	size_t n_files, cap;
	uint64_t n_changed, n_deleted, bytes;
};

/*
 * `after` is borrowed until changes_fini().  A file that is in both, and was hashed
 * before, is hashed again.
 *   -ESTALE   something changes meanwhile: scan again
 *   -ENOTSUP  a whiteout's device, or a target that was removed
 */
int changes_find(const struct env_scan *before, const struct env_scan *after,
		 const struct env_targets *t, struct changes *ret,
		 struct error *err) MUST_CHECK;
void changes_fini(struct changes *c);

/* Is it the mark of a name that was deleted? */
bool change_is_whiteout(const struct inode *i);

#endif
