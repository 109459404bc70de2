// SPDX-License-Identifier: Apache-2.0
/* Does any inode of an image have xattrs?  The superblock does not say. */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "image/erofs/erofs.h"
#include "image/erofs/format.h"

/* The walk over an image. Folders wait in a list, so a deep tree needs no deep recursion. */
struct xattr_scan {
	const struct erofs_image *img;
	uint64_t *dirs; /* nids */
	size_t n_dirs, cap_dirs;
	/* folders that may still be found; more would mean a circle */
	uint64_t left_dirs;
	/* entries that may still be read; more do not fit into the image */
	uint64_t left;
	struct error *err;
};

#define FOUND 1

static int push_dir(struct xattr_scan *s, uint64_t nid)
{
	if (s->left_dirs-- == 0)
		return error_set(s->err, EINVAL,
				 "EROFS: more folders than inodes");
	if (array_grow(&s->dirs, s->n_dirs, &s->cap_dirs, 256) < 0)
		return error_nomem(s->err);
	s->dirs[s->n_dirs++] = nid;
	return 0;
}

static bool is_dots(const char *name, size_t len)
{
	return name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.'));
}

static int look_at_entry(void *arg, const char *name, size_t len, uint64_t nid,
			 uint8_t type, uint64_t cookie)
{
	struct xattr_scan *s = arg;
	struct erofs_inode i;
	int rc;

	if (s->left-- == 0)
		return error_set(s->err, EINVAL,
				 "EROFS: more names than bytes");
	if (is_dots(name, len))
		return 0;
	rc = erofs_inode(s->img, nid, &i, s->err);
	if (rc < 0)
		return rc;
	if (i.xattr_len)
		return FOUND;
	return S_ISDIR(i.mode) ? push_dir(s, nid) : 0;
}

static int scan_tree(struct xattr_scan *s)
{
	struct erofs_inode dir;
	int rc = erofs_inode(s->img, s->img->root_nid, &dir, s->err);

	if (rc == 0)
		rc = dir.xattr_len ? FOUND : push_dir(s, dir.nid);
	while (rc == 0 && s->n_dirs) {
		rc = erofs_inode(s->img, s->dirs[--s->n_dirs], &dir, s->err);
		if (rc == 0)
			rc = erofs_readdir(s->img, &dir, 0, look_at_entry, s,
					   s->err);
	}
	return rc;
}

int erofs_has_xattrs(const struct erofs_image *img, bool *ret,
		     struct error *err)
{
	struct xattr_scan s = {
		.img = img,
		.left_dirs = img->n_inodes,
		.left = img->len / EROFS_DIRENT_SIZE,
		.err = err,
	};
	int rc = scan_tree(&s);

	free(s.dirs);
	if (rc < 0)
		return rc;
	*ret = rc == FOUND;
	return 0;
}
