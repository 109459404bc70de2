// SPDX-License-Identifier: Apache-2.0
#include "tree_diff.h"

#include <string.h>
#include <sys/stat.h>

#include "common/buf.h"

static const struct xattr *find_xattr(const struct inode *i, const char *name)
{
	for (const struct xattr *x = i->xattrs; x; x = x->next)
		if (strcmp(x->name, name) == 0)
			return x;
	return NULL;
}

static bool equal_xattrs(const struct inode *a, const struct inode *b)
{
	size_t n = 0;

	for (const struct xattr *x = a->xattrs; x; x = x->next, n++) {
		const struct xattr *y = find_xattr(b, x->name);

		if (!y || x->size != y->size ||
		    memcmp(x->value, y->value, x->size) != 0)
			return false;
	}
	for (const struct xattr *y = b->xattrs; y; y = y->next)
		n--;
	return n == 0;
}

/* Extents with those joined that continue each other. */
struct run_iter {
	const struct inode *i;
	uint32_t at;
};

static bool next_run(struct run_iter *it, struct extent *ret)
{
	const struct extent *e = it->i->extents;

	if (it->i->data != INODE_DATA_EXTENTS || it->at >= it->i->n_extents)
		return false;
	*ret = e[it->at++];
	while (it->at < it->i->n_extents &&
	       e[it->at].off == ret->off + ret->len &&
	       e[it->at].voff == ret->voff + ret->len)
		ret->len += e[it->at++].len;
	return true;
}

static bool equal_extents(const struct inode *a, const struct inode *b)
{
	struct run_iter p = { a, 0 }, q = { b, 0 };
	struct extent x, y;

	while (next_run(&p, &x)) {
		if (!next_run(&q, &y) || x.off != y.off || x.voff != y.voff)
			return false;
		/* An image does not tell how much of a block was data. */
		if ((x.len + 4095) / 4096 != (y.len + 4095) / 4096)
			return false;
	}
	return !next_run(&q, &y);
}

static const char *compare_data(const struct inode *a, const struct inode *b,
				bool extents)
{
	if (a->size != b->size)
		return "size";
	if (S_ISLNK(a->mode))
		return strcmp(a->target, b->target) == 0 ? NULL : "target";
	if (a->size == 0)
		return NULL;
	if (a->data != b->data)
		return "kind of data";
	if (a->data == INODE_DATA_INLINE)
		return memcmp(a->bytes, b->bytes, a->size) == 0 ? NULL
								: "bytes";
	return extents && !equal_extents(a, b) ? "extents" : NULL;
}

static const char *compare_inodes(struct inode *a, struct inode *b,
				  bool extents)
{
	if (a->mode != b->mode)
		return "mode";
	if (a->uid != b->uid || a->gid != b->gid)
		return "owner";
	if (a->mtime != b->mtime || a->mtime_nsec != b->mtime_nsec)
		return "mtime";
	if (a->nlink != b->nlink)
		return "links";
	if (!equal_xattrs(a, b))
		return "xattrs";
	if (S_ISCHR(a->mode) || S_ISBLK(a->mode))
		return a->major == b->major && a->minor == b->minor ? NULL
								    : "device";
	if (S_ISDIR(a->mode))
		return a->n_children == b->n_children ? NULL : "children";
	if (S_ISREG(a->mode) || S_ISLNK(a->mode))
		return compare_data(a, b, extents);
	return NULL;
}

static char *say(const struct dentry *d, const char *what)
{
	AUTO_FREE char *path = d ? tree_path(d) : NULL;
	AUTO_BUF text = BUF_INIT;

	if (buf_printf(&text, "%s: %s", path ? path : "/", what) < 0)
		return NULL;
	return buf_steal(&text);
}

static char *diff(struct dentry *d, struct inode *a, struct inode *b,
		  bool extents)
{
	const char *what = compare_inodes(a, b, extents);
	struct dentry *y;

	if (what)
		return say(d, what);
	if (!S_ISDIR(a->mode)) {
		/* Names of one inode must be names of one inode again. */
		if (a->user_ptr && a->user_ptr != b)
			return say(d, "hard link");
		a->user_ptr = b;
		return NULL;
	}
	if (tree_sort(a) < 0 || tree_sort(b) < 0)
		return say(d, "memory");
	y = a->n_children ? b->children : NULL;
	for (struct dentry *x = a->n_children ? a->children : NULL; x;
	     x = x->next, y = y->next) {
		char *text;

		if (x->name_len != y->name_len ||
		    memcmp(x->name, y->name, x->name_len) != 0)
			return say(x, "name");
		text = diff(x, x->inode, y->inode, extents);
		if (text)
			return text;
	}
	return NULL;
}

static void clear(struct inode *i)
{
	i->user_ptr = NULL;
	if (!S_ISDIR(i->mode))
		return;
	for (struct dentry *d = i->children; d; d = d->next)
		clear(d->inode);
}

char *tree_diff(struct tree *a, struct tree *b, bool extents)
{
	clear(tree_root(a));
	return diff(NULL, tree_root(a), tree_root(b), extents);
}
