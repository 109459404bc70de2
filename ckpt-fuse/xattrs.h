// SPDX-License-Identifier: Apache-2.0
/*
 * The extended attributes of a file or folder as its manifest keeps them: a list, by
 * name, in docs/formats/checkpoint.md.  Pure.
 */
#ifndef BOOTSEER_CKPT_FUSE_XATTRS_H
#define BOOTSEER_CKPT_FUSE_XATTRS_H

#include <stdbool.h>

#include "common/buf.h"
#include "common/error.h"

#define XATTRS_MAX 65536u /* bytes of the whole list */
#define XATTR_NAME_MAX_LEN 255u
#define XATTR_NAMES "user." /* all of them begin so */

/* A change of an attribute. */
struct xattr_change {
	const char *name;
	const void *value; /* NULL: it is removed */
	size_t len;
	bool only_new, only_there;
};

/* Is it a list that xattrs_change() could have made? */
bool xattrs_are_valid(const void *list, size_t len);
/* -ENODATA: there is none of the name.  The value is the list's. */
int xattrs_get(const void *list, size_t len, const char *name, const void **ret,
	       size_t *ret_len) MUST_CHECK;
/* -EEXIST, -ENODATA; -ENOSPC: there is no room for it; -EOPNOTSUPP: such names are not
 * kept. */
int xattrs_change(struct buf *list, const struct xattr_change *c,
		  struct error *err) MUST_CHECK;
/* The names, each with a NUL. */
int xattrs_names(const void *list, size_t len, struct buf *out) MUST_CHECK;

#endif
