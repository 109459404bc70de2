// SPDX-License-Identifier: Apache-2.0
/* The xattrs of a tree as EROFS stores them: equal ones only once where that saves room. */
#ifndef BOOTSEER_IMAGE_EROFS_XATTR_TABLE_H
#define BOOTSEER_IMAGE_EROFS_XATTR_TABLE_H

#include "common/error.h"
#include "image/tree.h"

struct xattr_shared {
	const struct xattr *x;
	uint32_t id; /* byte in the shared area / 4 */
};

struct xattr_table {
	/* xattrs of every inode; used until the shared ones are chosen */
	const struct xattr **all;
	size_t n_all, cap_all;
	struct xattr_shared *shared; /* sorted by name and value */
	size_t n_shared;
	uint64_t shared_size; /* bytes of the shared area */
	/* scratch memory: the xattrs of one inode, sorted */
	const struct xattr **list;
	size_t cap_list;
};

void xattr_table_fini(struct xattr_table *xt);

/* Add the xattrs of an inode. -ENOTSUP names the xattr, -ENOMEM. */
int xattr_table_add(struct xattr_table *xt, const struct inode *i,
		    struct error *err) MUST_CHECK;

/* Choose which xattrs are shared, after all were added. */
int xattr_table_finish(struct xattr_table *xt, struct error *err) MUST_CHECK;

/* Bytes of the inode's xattr area, 0 without xattrs.  -E2BIG, -ENOMEM. */
int xattr_table_size(struct xattr_table *xt, const struct inode *i,
		     uint32_t *ret, struct error *err) MUST_CHECK;

typedef int xattr_put_fn(void *arg, const void *data, size_t len);

/* Write the inode's xattr area, as long as xattr_table_size() said. */
int xattr_table_put(struct xattr_table *xt, const struct inode *i,
		    xattr_put_fn *put, void *arg, struct error *err) MUST_CHECK;

/* Write the area of the shared xattrs. */
int xattr_table_put_shared(const struct xattr_table *xt, xattr_put_fn *put,
			   void *arg) MUST_CHECK;

#endif
