// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/convert/compare.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "blockstore/blockstore.h"
#include "common/bytes.h"
#include "common/digest.h"
#include "snapshotter/convert/content.h"
#include "snapshotter/convert/tar.h"

#define READ_SIZE (256 * KIB)

/* Facts about an inode that is not a folder; inode.user_ptr points to them. */
struct compared {
	struct digest content;
	bool has_content;
	/* the same file in the other tree; NULL: no name of it was met yet */
	struct inode *twin;
};

static struct compared *compared_of(struct tree *t, struct inode *i)
{
	if (!i->user_ptr) {
		i->user_ptr = tree_alloc(t, sizeof(struct compared));
		if (i->user_ptr)
			memset(i->user_ptr, 0, sizeof(struct compared));
	}
	return i->user_ptr;
}

/* ---------------------------------------------------------------- the layers --- */

/* A sink that hashes each file that plan_copy() reads. */
struct content_sink {
	struct copy_sink sink;
	struct tree *tree;
	struct content_hash *hash;
	struct inode *file;
};

static int begin_file_content(struct copy_sink *s, struct inode *i,
			      struct error *err)
{
	container_of(s, struct content_sink, sink)->file = i;
	return 0;
}

static int content_data(struct copy_sink *s, uint64_t off, const void *data,
			size_t len, struct error *err)
{
	struct content_sink *c = container_of(s, struct content_sink, sink);
	int rc = content_hash_add(c->hash, off, data, len);

	return rc < 0 ? error_errno(err, -rc, "hash a file") : 0;
}

static int content_end(struct copy_sink *s, struct error *err)
{
	struct content_sink *c = container_of(s, struct content_sink, sink);
	struct compared *file = compared_of(c->tree, c->file);

	if (!file || content_hash_final(c->hash, &file->content) < 0)
		return error_nomem(err);
	file->has_content = true;
	return 0;
}

int compare_read_layers(struct plan *p, struct error *err)
{
	AUTO(content_hash) hash = content_hash_new();
	struct content_sink c = { .sink = { begin_file_content, content_data,
					    content_end },
				  .tree = p->tree,
				  .hash = hash };

	return hash ? plan_copy(p, &c.sink, NULL, NULL, err) : error_nomem(err);
}

/* --------------------------------------------------------------- the artifact --- */

/* The state of a run of compare_trees(). */
struct comparison {
	struct compare *c;
	struct content_hash *hash;
	uint8_t *room; /* buffer of READ_SIZE bytes */
	/* of the folder that is being compared, "" for the root */
	struct buf path;
};

/* The end of what readers see of the extent: the end of the file's last page, since a process
 * that maps the file sees the rest of that page too. */
static uint64_t shown_end_of_extent(const struct extent *x, uint64_t size)
{
	uint64_t end = x->off + x->len;

	return round_up(end < size ? end : size, BLOCK_ALIGN);
}

/* Hash an extent, with the rest of the last page: zeros there do not change the hash. */
static int hash_extent(struct comparison *k, const struct extent *x,
		       uint64_t size, struct error *err)
{
	uint64_t end = shown_end_of_extent(x, size);

	for (uint64_t off = x->off; off < end;) {
		size_t n =
			end - off < READ_SIZE ? (size_t)(end - off) : READ_SIZE;
		int rc = k->c->read(k->c->arg, x->voff + (off - x->off),
				    k->room, n, err);

		if (rc < 0)
			return rc;
		rc = content_hash_add(k->hash, off, k->room, n);
		if (rc < 0)
			return error_errno(err, -rc, "hash a file");
		off += n;
	}
	return 0;
}

static int hash_file(struct comparison *k, const struct inode *i,
		     struct digest *ret, struct error *err)
{
	int rc = 0;

	if (i->data == INODE_DATA_INLINE &&
	    content_hash_add(k->hash, 0, i->bytes, i->size) < 0)
		return error_nomem(err);
	if (i->data == INODE_DATA_EXTENTS)
		for (uint32_t n = 0; rc == 0 && n < i->n_extents; n++)
			rc = hash_extent(k, &i->extents[n], i->size, err);
	if (rc < 0)
		return rc;
	return content_hash_final(k->hash, ret) < 0 ? error_nomem(err) : 0;
}

/* Compare the contents of two files of one size. */
static int same_content(struct comparison *k, struct inode *want,
			struct inode *have, bool *ret, struct error *err)
{
	const struct compared *w = want->user_ptr;
	struct digest is;
	int rc;

	*ret = true;
	if (want->size == 0)
		return 0;
	if (!w || !w->has_content)
		return error_set(err, EBADMSG,
				 "the layers did not give the file's bytes");
	rc = hash_file(k, have, &is, err);
	*ret = rc == 0 && digest_equal(&is, &w->content);
	return rc;
}

/* ---------------------------------------------------------------- attributes --- */

static bool same_xattrs(const struct inode *a, const struct inode *b)
{
	if (tree_count_xattrs(a) != tree_count_xattrs(b))
		return false;
	for (const struct xattr *x = a->xattrs; x; x = x->next) {
		const struct xattr *y = tree_xattr(b, x->name);

		if (!y || x->size != y->size ||
		    (x->size && memcmp(x->value, y->value, x->size) != 0))
			return false;
	}
	return true;
}

/* The name of an attribute that differs; NULL: none does, but the content may. */
static const char *attribute_that_differs(const struct inode *a,
					  const struct inode *b)
{
	if ((a->mode & S_IFMT) != (b->mode & S_IFMT))
		return "kind";
	if (a->mode != b->mode)
		return "mode";
	if (a->uid != b->uid || a->gid != b->gid)
		return "owner";
	if (a->mtime != b->mtime || a->mtime_nsec != b->mtime_nsec)
		return "mtime";
	if (!same_xattrs(a, b))
		return "extended attributes";
	if (S_ISCHR(a->mode) || S_ISBLK(a->mode))
		return a->major == b->major && a->minor == b->minor ? NULL
								    : "device";
	if (S_ISLNK(a->mode))
		return strcmp(a->target, b->target) == 0 ? NULL : "target";
	if (S_ISREG(a->mode) && a->size != b->size)
		return "size";
	return NULL;
}

/* ---------------------------------------------------------------------- walk --- */

static void report_difference(struct comparison *k, const char *name,
			      const char *what)
{
	struct compare_report *r = k->c->report;
	char text[TAR_NAME_MAX];
	AUTO_BUF path = BUF_INIT;

	r->n++;
	if (!r->differs)
		return;
	if (buf_printf(&path, "%s%s%s", k->path.len ? k->path.data : "",
		       name          ? "/"
		       : k->path.len ? ""
				     : "/",
		       name ? name : "") < 0)
		return;
	tar_format_name(path.data, text);
	r->differs(r, text, what);
}

/* Do the same names lead to one file in both trees? */
static int same_links(struct comparison *k, struct inode *want,
		      struct inode *have, bool *ret_first, bool *ret_same,
		      struct error *err)
{
	struct compared *w = compared_of(k->c->want, want);
	struct compared *h = compared_of(k->c->have, have);

	if (!w || !h)
		return error_nomem(err);
	*ret_first = !w->twin && !h->twin;
	*ret_same = *ret_first || (w->twin == have && h->twin == want);
	if (*ret_first) {
		w->twin = have;
		h->twin = want;
	}
	return 0;
}

static int compare_folders(struct comparison *k, struct inode *want,
			   struct inode *have, struct error *err);

/* Compare two inodes of the name `name`; NULL: the roots. */
static int compare_inodes(struct comparison *k, const char *name,
			  struct inode *want, struct inode *have,
			  struct error *err)
{
	const char *what = attribute_that_differs(want, have);
	size_t len = k->path.len;
	bool first = false, same = true;
	int rc;

	if (what)
		report_difference(k, name, what);
	if ((want->mode & S_IFMT) != (have->mode & S_IFMT))
		return 0;
	if (S_ISDIR(want->mode)) {
		if (name && buf_printf(&k->path, "/%s", name) < 0)
			return error_nomem(err);
		rc = compare_folders(k, want, have, err);
		k->path.len = len;
		if (k->path.data)
			k->path.data[len] = '\0';
		return rc;
	}
	rc = same_links(k, want, have, &first, &same, err);
	if (rc < 0)
		return rc;
	if (!same)
		report_difference(k, name, "hard link");
	/* Read a file with several names only once. */
	if (!first || !S_ISREG(want->mode) || want->size != have->size ||
	    !k->c->read)
		return 0;
	rc = same_content(k, want, have, &same, err);
	if (rc == 0 && !same)
		report_difference(k, name, "content");
	return rc;
}

static int compare_names(const struct dentry *a, const struct dentry *b)
{
	size_t n = a->name_len < b->name_len ? a->name_len : b->name_len;
	int order = memcmp(a->name, b->name, n);

	return order ? order : (int)a->name_len - (int)b->name_len;
}

static int compare_folders(struct comparison *k, struct inode *want,
			   struct inode *have, struct error *err)
{
	const struct dentry *x, *y;
	int rc = 0;

	if (tree_sort(want) < 0 || tree_sort(have) < 0)
		return error_nomem(err);
	x = want->children;
	y = have->children;
	while (rc == 0 && (x || y)) {
		int order = !x ? 1 : !y ? -1 : compare_names(x, y);

		if (order < 0)
			report_difference(k, x->name,
					  "missing in the artifact");
		else if (order > 0)
			report_difference(k, y->name, "not in the layers");
		else
			rc = compare_inodes(k, x->name, x->inode, y->inode,
					    err);
		if (order <= 0)
			x = x->next;
		if (order >= 0)
			y = y->next;
	}
	return rc;
}

int compare_trees(struct compare *c, struct error *err)
{
	AUTO(content_hash) hash = content_hash_new();
	AUTO_FREE uint8_t *room = malloc(READ_SIZE);
	struct comparison k = {
		.c = c, .hash = hash, .room = room, .path = BUF_INIT
	};
	int rc;

	if (!hash || !room)
		return error_nomem(err);
	rc = compare_inodes(&k, NULL, tree_root(c->want), tree_root(c->have),
			    err);
	buf_fini(&k.path);
	return rc;
}
