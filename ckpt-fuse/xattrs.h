// SPDX-License-Identifier: Apache-2.0
/*
 * The list of extended attributes that a manifest stores, sorted by name (format:
 * docs/formats/checkpoint.md). Pure.
 */
#ifndef BOOTSEER_CKPT_FUSE_XATTRS_H
#define BOOTSEER_CKPT_FUSE_XATTRS_H

#include <stdbool.h>

#include "common/buf.h"
#include "common/error.h"

#define XATTRS_MAX 65536u /* bytes of the whole list */
#define XATTR_NAME_MAX_LEN 255u
#define XATTR_NAMES "user." /* prefix of all names */

/* A change of an attribute. */
struct xattr_change {
	const char *name;
	const void *value; /* NULL: remove the attribute */
	size_t len;
	bool only_new, only_there;
};

/* Is it a valid list, as xattrs_change() makes it? */
bool xattrs_are_valid(const void *list, size_t len);
/* Get an attribute; the value is borrowed from the list. -ENODATA: there is none of this name. */
int xattrs_get(const void *list, size_t len, const char *name, const void **ret,
	       size_t *ret_len) MUST_CHECK;
/* Change a list. -EEXIST, -ENODATA (only_new, only_there); -ENOSPC: the list would be too long;
 * -EOPNOTSUPP: names without the prefix are not stored. */
int xattrs_change(struct buf *list, const struct xattr_change *c,
		  struct error *err) MUST_CHECK;
/* Append the names, each followed by a NUL. */
int xattrs_names(const void *list, size_t len, struct buf *out) MUST_CHECK;

#endif
