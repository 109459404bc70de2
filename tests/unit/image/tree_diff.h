// SPDX-License-Identifier: Apache-2.0
/* Compares two trees, for tests. */
#ifndef BOOTSEER_TESTS_TREE_DIFF_H
#define BOOTSEER_TESTS_TREE_DIFF_H

#include "image/tree.h"

/*
 * The first difference between two trees as text that the caller frees, or
 * NULL.  Attributes, names, hard links, xattrs, inline bytes; extents when
 * `extents` is true.  Uses inode.user_ptr of `a`; sorts both.
 */
char *tree_diff(struct tree *a, struct tree *b, bool extents) MUST_CHECK;

#endif
