// SPDX-License-Identifier: Apache-2.0
/*
 * Reads a whole image as a tree. Two limits protect against images whose parts overlap or refer
 * to each other many times: the bytes read may not add up to more than the image has, and the
 * tree's memory is a bounded multiple of the image's size.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "common/array.h"
#include "common/bytes.h"
#include "image/erofs/format.h"
#include "image/erofs/read.h"

#define TREE_MEMORY_FACTOR 16
#define TREE_MEMORY_BASE (16u << 20)

/* A folder that is still to be read. */
struct unread_dir {
	struct inode *dir;
	unsigned int depth; /* number of folders above it */
};

struct tree_reader {
	const struct erofs_image *img;
	struct tree *t;
	struct error *err;
	struct inode **by_nid; /* n_nids entries; NULL: inode not found yet */
	uint64_t n_nids;
	uint64_t used; /* bytes of the image that were used, added up */
	struct unread_dir *dirs;
	size_t n_dirs, cap_dirs;
	/* state while one folder is read */
	struct inode *dir; /* NULL: no folder yet */
	unsigned int depth;
	char prev[TREE_NAME_MAX];
	size_t prev_len;
	unsigned int n_dots;
	/* state while the xattrs of one inode are read */
	struct inode *inode;
};

static int read_tree_bad(struct tree_reader *r, uint64_t nid, const char *what)
{
	return error_set(r->err, EINVAL, "EROFS inode %llu: %s",
			 (unsigned long long)nid, what);
}

static int count_inode_bytes_used(struct tree_reader *r, uint64_t nid,
				  uint64_t bytes)
{
	if (bytes > r->img->len - r->used)
		return read_tree_bad(r, nid, "shares bytes with another");
	r->used += bytes;
	return 0;
}

static int take_xattr(void *arg, const char *name, const void *value,
		      size_t size)
{
	struct tree_reader *r = arg;
	int rc = tree_set_xattr(r->t, r->inode, name, value, size);

	if (rc < 0)
		return error_errno(r->err, -rc,
				   "EROFS inode %llu: xattr '%.64s'",
				   (unsigned long long)r->inode->user, name);
	return 0;
}

static int copy_content(struct tree_reader *r, const struct erofs_inode *ei,
			uint8_t *to)
{
	const uint8_t *p;
	uint64_t len;
	int rc;

	for (uint64_t off = 0; off < ei->size; off += len) {
		rc = erofs_content(r->img, ei, off, &p, &len, r->err);
		if (rc < 0)
			return rc;
		memcpy(to + off, p, len);
	}
	return 0;
}

static int read_symlink(struct tree_reader *r, const struct erofs_inode *ei,
			struct inode *i)
{
	const char *target;
	size_t len;
	char *copy;
	int rc = erofs_readlink(r->img, ei, &target, &len, r->err);

	if (rc == 0)
		rc = count_inode_bytes_used(r, ei->nid, len);
	if (rc < 0)
		return rc;
	copy = tree_alloc(r->t, len + 1);
	if (!copy)
		return error_nomem(r->err);
	memcpy(copy, target, len);
	copy[len] = '\0';
	i->target = copy;
	return 0;
}

static int read_inline(struct tree_reader *r, const struct erofs_inode *ei,
		       struct inode *i)
{
	uint8_t *bytes;
	int rc = count_inode_bytes_used(r, ei->nid, ei->size);

	if (rc < 0)
		return rc;
	bytes = tree_alloc(r->t, ei->size);
	if (!bytes)
		return error_nomem(r->err);
	i->data = INODE_DATA_INLINE;
	i->bytes = bytes;
	return copy_content(r, ei, bytes);
}

/* Find the next run of data at or behind `off`; len 0 at the end. */
static int next_extent(struct tree_reader *r, const struct erofs_inode *ei,
		       uint64_t off, struct extent *ret)
{
	struct erofs_map m;
	int rc;

	*ret = (struct extent){ .len = 0 };
	while (off < ei->size) {
		rc = erofs_map(r->img, ei, off, &m, r->err);
		if (rc < 0)
			return rc;
		if (m.kind == EROFS_MAP_INLINE)
			return read_tree_bad(r, ei->nid,
					     "chunks in the image itself");
		if (m.kind == EROFS_MAP_DEVICE) {
			uint64_t voff = EROFS_VOFF(m.device - 1, m.voff);

			if (ret->len && ret->voff + ret->len != voff)
				break;
			if (!ret->len)
				*ret = (struct extent){ off, 0, voff };
			ret->len += m.len;
		} else if (ret->len) {
			break;
		}
		off += m.len;
	}
	return 0;
}

static int read_extents(struct tree_reader *r, const struct erofs_inode *ei,
			struct inode *i)
{
	struct extent e;
	uint64_t off = 0;
	uint32_t n = 0;
	int rc;

	i->data = INODE_DATA_EXTENTS;
	for (;; n++, off = e.off + e.len) {
		rc = next_extent(r, ei, off, &e);
		if (rc < 0)
			return rc;
		if (e.len == 0)
			break;
	}
	if (n == 0)
		return 0;
	i->extents = tree_alloc(r->t, n * sizeof(e));
	if (!i->extents)
		return error_nomem(r->err);
	for (off = 0; i->n_extents < n; off = e.off + e.len) {
		rc = next_extent(r, ei, off, &e);
		if (rc < 0)
			return rc;
		i->extents[i->n_extents++] = e;
	}
	return 0;
}

static int read_file(struct tree_reader *r, const struct erofs_inode *ei,
		     struct inode *i)
{
	struct erofs_map m;
	const uint8_t *index;
	unsigned int bits;
	uint64_t n;
	int rc;

	if (ei->size == 0)
		return 0;
	if (ei->layout == EROFS_LAYOUT_FLAT_INLINE)
		return read_inline(r, ei, i);
	if (ei->layout == EROFS_LAYOUT_CHUNK_BASED) {
		rc = erofs_chunks(r->img, ei, &index, &n, &bits, r->err);
		if (rc == 0)
			rc = count_inode_bytes_used(r, ei->nid,
						    n * EROFS_CHUNK_INDEX_SIZE);
		return rc < 0 ? rc : read_extents(r, ei, i);
	}
	rc = erofs_map(r->img, ei, 0, &m, r->err);
	if (rc < 0)
		return rc;
	return m.kind == EROFS_MAP_INLINE ? read_inline(r, ei, i)
					  : read_extents(r, ei, i);
}

static int queue_dir(struct tree_reader *r, struct inode *dir)
{
	unsigned int depth = r->dir ? r->depth + 1 : 0;

	/* A deeper folder is refused, since the tree's users walk it by recursion. */
	if (depth > TREE_DEPTH_MAX)
		return error_set(r->err, EINVAL,
				 "more than %d folders in each other",
				 TREE_DEPTH_MAX);
	if (array_grow(&r->dirs, r->n_dirs, &r->cap_dirs, 64) < 0)
		return error_nomem(r->err);
	r->dirs[r->n_dirs++] = (struct unread_dir){ dir, depth };
	return 0;
}

static int fill_inode(struct tree_reader *r, const struct erofs_inode *ei,
		      struct inode *i)
{
	int rc = count_inode_bytes_used(r, ei->nid,
					(uint64_t)ei->head + ei->xattr_len);

	i->mode = (uint16_t)ei->mode;
	i->uid = ei->uid;
	i->gid = ei->gid;
	i->major = ei->major;
	i->minor = ei->minor;
	i->mtime = ei->mtime;
	i->mtime_nsec = ei->mtime_nsec;
	i->user = ei->nid;
	r->inode = i;
	if (rc == 0)
		rc = erofs_xattrs(r->img, ei, take_xattr, r, r->err);
	if (rc < 0)
		return rc;
	if (S_ISDIR(ei->mode)) {
		rc = count_inode_bytes_used(r, ei->nid, ei->size);
		return rc < 0 ? rc : queue_dir(r, i);
	}
	if (S_ISREG(ei->mode) || S_ISLNK(ei->mode))
		i->size = ei->size;
	if (S_ISREG(ei->mode))
		rc = read_file(r, ei, i);
	else if (S_ISLNK(ei->mode))
		rc = read_symlink(r, ei, i);
	if (rc == 0 &&
	    tree_memory(r->t) / TREE_MEMORY_FACTOR >
		    r->img->len + TREE_MEMORY_BASE / TREE_MEMORY_FACTOR)
		return read_tree_bad(r, ei->nid,
				     "the tree grows out of proportion");
	return rc;
}

/* Get the inode of an entry: a new inode, or, for a hard link, one read before. */
static int get_inode(struct tree_reader *r, uint64_t nid, uint8_t type,
		     struct inode **ret)
{
	struct erofs_inode ei;
	struct inode *i;
	int rc;

	if (nid < r->n_nids && r->by_nid[nid]) {
		i = r->by_nid[nid];
		if (S_ISDIR(i->mode))
			return read_tree_bad(r, nid, "a folder with two names");
		if (erofs_file_type(i->mode) != type)
			return read_tree_bad(r, nid,
					     "an entry of another type");
		*ret = i;
		return 0;
	}
	rc = erofs_inode(r->img, nid, &ei, r->err);
	if (rc < 0)
		return rc;
	if (erofs_file_type(ei.mode) != type)
		return read_tree_bad(r, nid, "an entry of another type");
	i = tree_inode_new(r->t, ei.mode);
	if (!i)
		return error_nomem(r->err);
	rc = fill_inode(r, &ei, i);
	if (rc < 0)
		return rc;
	r->by_nid[nid] = i;
	*ret = i;
	return 0;
}

static bool is_behind(const struct tree_reader *r, const char *name, size_t len)
{
	size_t n = len < r->prev_len ? len : r->prev_len;
	int c = memcmp(r->prev, name, n);

	return c < 0 || (c == 0 && r->prev_len < len);
}

static int take_entry(void *arg, const char *name, size_t len, uint64_t nid,
		      uint8_t type, uint64_t cookie)
{
	struct tree_reader *r = arg;
	struct inode *i = NULL;
	int rc;

	(void)cookie;
	if (!is_behind(r, name, len))
		return read_tree_bad(r, r->dir->user, "entries out of order");
	memcpy(r->prev, name, len);
	r->prev_len = len;
	if (name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.'))) {
		i = len == 1 ? r->dir : r->dir->dir_parent;
		r->n_dots++;
		return nid == i->user && type == EROFS_FT_DIR
			       ? 0
			       : read_tree_bad(r, r->dir->user,
					       "wrong '.' or '..'");
	}
	rc = get_inode(r, nid, type, &i);
	if (rc < 0)
		return rc;
	rc = tree_link(r->t, r->dir, name, len, i);
	if (rc < 0)
		return error_errno(r->err, -rc, "EROFS folder %llu: entry",
				   (unsigned long long)r->dir->user);
	return 0;
}

static int read_dir(struct tree_reader *r, const struct unread_dir *next)
{
	struct inode *dir = next->dir;
	struct erofs_inode ei;
	int rc = erofs_inode(r->img, dir->user, &ei, r->err);

	r->dir = dir;
	r->depth = next->depth;
	r->prev_len = 0;
	r->n_dots = 0;
	if (rc == 0)
		rc = erofs_readdir(r->img, &ei, 0, take_entry, r, r->err);
	if (rc == 0 && r->n_dots != 2)
		return read_tree_bad(r, dir->user, "no '.' or '..'");
	return rc;
}

static int check_links(struct tree_reader *r)
{
	struct erofs_inode ei;
	int rc = 0;

	for (uint64_t nid = 0; nid < r->n_nids && rc == 0; nid++) {
		if (!r->by_nid[nid])
			continue;
		rc = erofs_inode(r->img, nid, &ei, r->err);
		if (rc == 0 && ei.nlink != r->by_nid[nid]->nlink)
			return read_tree_bad(r, nid, "wrong number of links");
	}
	if (rc == 0 && tree_n_inodes(r->t) != r->img->n_inodes)
		return error_set(r->err, EINVAL,
				 "EROFS superblock: %llu inodes, found %llu",
				 (unsigned long long)r->img->n_inodes,
				 (unsigned long long)tree_n_inodes(r->t));
	return rc;
}

static int read_whole_tree(struct tree_reader *r)
{
	struct inode *root = tree_root(r->t);
	struct erofs_inode ei;
	int rc = erofs_inode(r->img, r->img->root_nid, &ei, r->err);

	if (rc == 0)
		rc = fill_inode(r, &ei, root);
	if (rc < 0)
		return rc;
	r->by_nid[r->img->root_nid] = root;
	while (rc == 0 && r->n_dirs) {
		const struct unread_dir next = r->dirs[--r->n_dirs];

		rc = read_dir(r, &next);
	}
	return rc < 0 ? rc : check_links(r);
}

int erofs_read_tree(const struct erofs_image *img, struct tree **ret,
		    struct error *err)
{
	AUTO(tree) t = tree_new();
	AUTO_FREE struct inode **by_nid = NULL;
	struct tree_reader r = { .img = img, .t = t, .err = err };
	int rc;

	r.n_nids = (img->len - img->meta_off) / EROFS_SLOT + 1;
	by_nid = calloc(r.n_nids, sizeof(struct inode *));
	if (!t || !by_nid)
		return error_nomem(err);
	r.by_nid = by_nid;
	rc = read_whole_tree(&r);
	free(r.dirs);
	if (rc < 0)
		return rc;
	*ret = steal_ptr(&t);
	return 0;
}
