// SPDX-License-Identifier: Apache-2.0
/*
 * Where this differs from containerd's apply: an entry for the root folder sets its attributes
 * (as umoci and Docker do), a folder that a layer names again loses the xattrs it had (as
 * overlayfs shows it), the time of a folder that is only implied is that of the entry that
 * implied it (not "now"), and a name that climbs out of the root is refused.  A whiteout hides
 * nothing of its own layer, in whatever order the entries come: docs/formats/layers.md has the
 * contested cases.
 *
 * containerd unpacks each layer into a folder of its own, which overlayfs puts over the others.
 * So a path leads through folders of any layer, but only through symlinks of its own: what else
 * a layer below has in its place is hidden by the folder that is made there.
 */
#include "snapshotter/convert/apply.h"

#include <errno.h>
#include <linux/xattr.h>
#include <string.h>
#include <sys/stat.h>

#include "common/buf.h"
#include "snapshotter/convert/acl.h"

/* Linux' limits of a device number as EROFS stores it. */
#define MAJOR_MAX 0xfffu
#define MINOR_MAX 0xfffffu

/* Set in inode.user of a folder, beside the layer's number: the layer has only whiteouts in the
 * folder. */
#define ONLY_WHITEOUTS (UINT64_C(1) << 63)

struct apply {
	struct tree *tree;
	/* number of the current layer, from 1; kept in inode.user of what it unpacked */
	uint64_t layer;
	uint64_t n_entries;
	struct buf path; /* cleaned name of the entry */
	/* parts of a path still to walk, with symlinks put in */
	struct buf pending;
	struct buf next;  /* the new `pending` while it is rebuilt */
	uint64_t n_steps; /* steps of work, to limit it */
	/* Names that this layer linked to inodes of older layers: a set with open addressing,
	 * at most half full. */
	const struct dentry **links;
	size_t n_links, cap_links;
};

struct apply *apply_new(struct tree *t)
{
	struct apply *a = calloc(1, sizeof(*a));

	if (a)
		a->tree = t;
	return a;
}

void apply_free(struct apply *a)
{
	if (!a)
		return;
	buf_fini(&a->path);
	buf_fini(&a->pending);
	buf_fini(&a->next);
	free(a->links);
	free(a);
}

void apply_next_layer(struct apply *a)
{
	a->layer++;
	a->n_links = 0;
	if (a->cap_links)
		memset(a->links, 0, a->cap_links * sizeof(struct dentry *));
}

/* Count steps of work: chains of symlinks and repeated markers make much work from few bytes. */
static int spend_budget(struct apply *a, uint64_t steps, struct error *err)
{
	a->n_steps += steps;
	if (a->n_steps > APPLY_STEPS_MAX)
		return error_set(err, E2BIG,
				 "applying the layers takes more than %llu "
				 "steps",
				 (unsigned long long)APPLY_STEPS_MAX);
	return 0;
}

static size_t links_slot(const struct dentry **set, size_t cap,
			 const struct dentry *d)
{
	uint64_t h = (uint64_t)(uintptr_t)d * UINT64_C(0x9e3779b97f4a7c15);
	size_t at = (size_t)(h >> 32) & (cap - 1);

	while (set[at] && set[at] != d)
		at = (at + 1) & (cap - 1);
	return at;
}

static int links_add(struct apply *a, const struct dentry *d, struct error *err)
{
	if (a->n_links * 2 >= a->cap_links) {
		size_t cap = a->cap_links ? a->cap_links * 2 : 64;
		const struct dentry **set =
			calloc(cap, sizeof(struct dentry *));

		if (!set)
			return error_nomem(err);
		for (size_t i = 0; i < a->cap_links; i++)
			if (a->links[i])
				set[links_slot(set, cap, a->links[i])] =
					a->links[i];
		free(a->links);
		a->links = set;
		a->cap_links = cap;
	}
	a->links[links_slot(a->links, a->cap_links, d)] = d;
	a->n_links++;
	return 0;
}

/* Cut the next part off `*p`: its start and length; NULL at the end. */
static const char *next_component(const char **p, size_t *ret_len)
{
	const char *s = *p, *e;

	while (*s == '/')
		s++;
	if (*s == '\0')
		return NULL;
	e = strchrnul(s, '/');
	*ret_len = (size_t)(e - s);
	*p = e;
	return s;
}

static bool is_dots(const char *s, size_t len, size_t dots)
{
	return len == dots && memcmp(s, "..", dots) == 0;
}

/* Clean a path by its text alone: no empty parts, no ".", and ".." removes the part before. */
static int clean_path(struct apply *a, const char *path, struct error *err)
{
	bool absolute = path[0] == '/';
	const char *s;
	size_t len;

	if (strlen(path) > APPLY_PATH_MAX)
		return error_set(err, ENAMETOOLONG,
				 "its name is longer than %d bytes",
				 APPLY_PATH_MAX);
	buf_reset(&a->path);
	if (buf_reserve(&a->path, 1) < 0)
		return error_nomem(err);
	while ((s = next_component(&path, &len))) {
		if (is_dots(s, len, 1))
			continue;
		if (is_dots(s, len, 2)) {
			const char *cut;

			if (a->path.len == 0 && absolute)
				continue;
			if (a->path.len == 0)
				return error_set(err, EINVAL,
						 "its name leads out of the "
						 "root");
			cut = memrchr(a->path.data, '/', a->path.len);
			a->path.len = cut ? (size_t)(cut - a->path.data) : 0;
			a->path.data[a->path.len] = '\0';
			continue;
		}
		if ((a->path.len && buf_puts(&a->path, "/") < 0) ||
		    buf_append(&a->path, s, len) < 0)
			return error_nomem(err);
	}
	return 0;
}

static int check_memory(const struct apply *a, struct error *err)
{
	if (tree_memory(a->tree) > TREE_MEMORY_MAX)
		return error_set(
			err, E2BIG,
			"the image's metadata needs more than %llu MiB",
			(unsigned long long)TREE_MEMORY_MAX >> 20);
	return 0;
}

static int check_depth(struct apply *a, const struct inode *dir,
		       struct error *err)
{
	unsigned int depth = 0;

	for (; dir->dir_parent != dir; dir = dir->dir_parent)
		if (++depth >= TREE_DEPTH_MAX)
			return error_set(err, ENAMETOOLONG,
					 "more than %d folders in each other",
					 TREE_DEPTH_MAX);
	return spend_budget(a, depth, err);
}

static int link_name(struct apply *a, struct inode *dir, const char *name,
		     size_t len, struct inode *inode, struct error *err)
{
	int rc = tree_link(a->tree, dir, name, len, inode);

	if (rc == -ENOMEM)
		return error_nomem(err);
	if (rc == -ENAMETOOLONG)
		return error_set(err, ENAMETOOLONG,
				 "a part of its name is longer than %d bytes",
				 TREE_NAME_MAX);
	if (rc < 0)
		return error_errno(err, -rc, "cannot be named");
	return 0;
}

/* Make a folder that has no entry. */
static int imply_dir(struct apply *a, const struct layer_entry *e,
		     struct inode *dir, const char *name, size_t len,
		     struct inode **ret, struct error *err)
{
	struct inode *i;
	int rc = check_depth(a, dir, err);

	if (rc < 0)
		return rc;
	i = tree_inode_new(a->tree, S_IFDIR | 0755);
	if (!i)
		return error_nomem(err);
	i->mtime = e->mtime;
	i->mtime_nsec = e->mtime_nsec;
	rc = link_name(a, dir, name, len, i, err);
	if (rc == 0)
		*ret = i;
	return rc;
}

/* Put a symlink's target before the parts that are still to walk. */
static int follow_symlink(struct apply *a, const struct inode *link,
			  const char *rest, struct error *err)
{
	struct buf old;
	int rc = spend_budget(a, (strlen(link->target) + strlen(rest)) / 16,
			      err);

	if (rc < 0)
		return rc;
	buf_reset(&a->next);
	if (strlen(link->target) + strlen(rest) > UINT16_MAX)
		return error_set(err, ENAMETOOLONG,
				 "symlinks make a path longer than %d bytes",
				 UINT16_MAX);
	if (buf_puts(&a->next, link->target) < 0 ||
	    buf_puts(&a->next, "/") < 0 || buf_puts(&a->next, rest) < 0)
		return error_nomem(err);
	old = a->pending;
	a->pending = a->next;
	a->next = old;
	return 0;
}

/* Did this layer put the name there, or anything below it? */
static bool is_name_of_this_layer(const struct apply *a, const struct dentry *d)
{
	return (d->inode->user & ~ONLY_WHITEOUTS) == a->layer ||
	       (a->n_links && a->links[links_slot(a->links, a->cap_links, d)]);
}

/* Is it a lower layer's entry that is no folder?  A path of this layer cannot lead through it:
 * overlayfs hides it behind a new folder. */
static bool is_hidden(const struct apply *a, const struct dentry *d)
{
	return !S_ISDIR(d->inode->mode) && !is_name_of_this_layer(a, d);
}

/* A symlink's "missing/x/../../y" must not make folders that its ".." leaves again: skip these
 * parts in `*p`, which is after the name of the missing part. */
static bool skip_parts_left_again(const char **p)
{
	const char *q = *p, *s;
	unsigned int depth = 1;
	size_t n;

	while (depth && (s = next_component(&q, &n))) {
		if (is_dots(s, n, 2))
			depth--;
		else if (!is_dots(s, n, 1))
			depth++;
	}
	if (depth)
		return false;
	*p = q;
	return true;
}

/*
 * Find the folder at `path` (`len` bytes), resolving every symlink inside the root.  Missing
 * folders are made if `make`, else -ENOENT; a new folder replaces what it hides.
 */
static int walk_path(struct apply *a, const struct layer_entry *e,
		     const char *path, size_t len, bool make,
		     struct inode **ret, struct error *err)
{
	struct inode *dir = tree_root(a->tree);
	unsigned int links = 0;
	const char *p, *s;
	size_t n;
	int rc;

	buf_reset(&a->pending);
	if (buf_append(&a->pending, path, len) < 0)
		return error_nomem(err);
	p = a->pending.data;
	while ((s = next_component(&p, &n))) {
		struct dentry *d;

		rc = spend_budget(a, 1, err);
		if (rc < 0)
			return rc;
		if (is_dots(s, n, 1))
			continue;
		if (is_dots(s, n, 2)) {
			dir = dir->dir_parent;
			continue;
		}
		d = tree_find(a->tree, dir, s, n);
		if (!d && !make)
			return error_set(err, ENOENT, "'%.*s' does not exist",
					 (int)n, s);
		if (make && (!d || is_hidden(a, d))) {
			rc = links ? spend_budget(a, strlen(p) / 16, err) : 0;
			if (rc == 0 && links && skip_parts_left_again(&p))
				continue;
			if (rc == 0 && d)
				tree_unlink(a->tree, d);
			if (rc < 0)
				return rc;
			rc = imply_dir(a, e, dir, s, n, &dir, err);
			if (rc < 0)
				return rc;
		} else if (S_ISDIR(d->inode->mode)) {
			dir = d->inode;
		} else if (!S_ISLNK(d->inode->mode)) {
			return error_set(err, ENOTDIR,
					 "its parent '%.*s' is not a folder",
					 (int)n, s);
		} else {
			if (++links > APPLY_LINKS_MAX)
				return error_set(err, ELOOP,
						 "more than %d symlinks on its "
						 "path",
						 APPLY_LINKS_MAX);
			if (d->inode->target[0] == '/')
				dir = tree_root(a->tree);
			rc = follow_symlink(a, d->inode, p, err);
			if (rc < 0)
				return rc;
			p = a->pending.data;
		}
	}
	*ret = dir;
	return 0;
}

/* Mark the folder and those above it as having something of this layer, so that the layer's own
 * whiteouts keep them, in whatever order they come.  Folders above a marked one are marked
 * already. */
static void mark_folder_used(struct apply *a, struct inode *dir,
			     bool by_whiteout)
{
	uint64_t mark = a->layer | (by_whiteout ? ONLY_WHITEOUTS : 0);

	for (; dir->user != a->layer && dir->user != mark;
	     dir = dir->dir_parent)
		dir->user = mark;
}

/* Make the folder opaque: remove everything of the lower layers. */
static int make_opaque(struct apply *a, struct inode *dir, struct error *err)
{
	struct dentry *d, *next;
	int rc = spend_budget(a, dir->n_children, err);

	for (d = dir->children; rc == 0 && d; d = next) {
		next = d->next;
		if (!is_name_of_this_layer(a, d))
			tree_unlink(a->tree, d);
		else if (S_ISDIR(d->inode->mode))
			rc = make_opaque(a, d->inode, err);
	}
	return rc;
}

static int apply_whiteout(struct apply *a, struct inode *dir, const char *base,
			  struct error *err)
{
	const char *name = base + strlen(WHITEOUT_PREFIX);
	size_t len = strlen(name);
	struct dentry *d;

	/* overlayfs ignores an opaque marker in a layer's root. */
	if (strcmp(base, WHITEOUT_OPAQUE) == 0)
		return dir == tree_root(a->tree) ? 0 : make_opaque(a, dir, err);
	if (len == 0 || is_dots(name, len, 1) || is_dots(name, len, 2))
		return error_set(err, EINVAL, "it whites out no name");
	d = tree_find(a->tree, dir, name, len);
	if (d && is_name_of_this_layer(a, d) &&
	    !(d->inode->user & ONLY_WHITEOUTS))
		return S_ISDIR(d->inode->mode) ? make_opaque(a, d->inode, err)
					       : 0;
	if (d)
		tree_unlink(a->tree, d);
	return 0;
}

static void set_stat(const struct layer_entry *e, struct inode *i)
{
	i->mode = (i->mode & S_IFMT) |
		  (S_ISLNK(i->mode) ? 0777 : e->mode & 07777);
	i->uid = e->uid;
	i->gid = e->gid;
	i->mtime = e->mtime;
	i->mtime_nsec = e->mtime_nsec;
}

bool apply_can_have_xattr(uint32_t mode, const char *name)
{
	if (strncmp(name, XATTR_USER_PREFIX, XATTR_USER_PREFIX_LEN) == 0)
		return S_ISREG(mode) || S_ISDIR(mode);
	if (strcmp(name, XATTR_NAME_POSIX_ACL_ACCESS) == 0)
		return !S_ISLNK(mode);
	return strcmp(name, XATTR_NAME_POSIX_ACL_DEFAULT) != 0 || S_ISDIR(mode);
}

static int add_xattrs(struct apply *a, const struct layer_entry *e,
		      struct inode *i, struct error *err)
{
	uint64_t n = 0;

	for (const struct xattr *x = e->xattrs; x; x = x->next) {
		/* tree_set_xattr() compares each name with those before it, so the work grows. */
		int rc = spend_budget(a, 1 + n++ / 16, err);

		if (rc < 0)
			return rc;
		/* user.* needs a file or folder, and a hard link's header does not say what it
		 * links to. */
		if (e->hard && !apply_can_have_xattr(i->mode, x->name))
			continue;
		rc = tree_set_xattr(a->tree, i, x->name, x->value, x->size);
		if (rc == -ENOMEM)
			return error_nomem(err);
		if (rc < 0)
			return error_errno(err, -rc, "xattr '%.64s'", x->name);
	}
	return 0;
}

static void drop_xattr(struct inode *i, const char *name)
{
	struct xattr **at = &i->xattrs;

	while (*at && strcmp((*at)->name, name) != 0)
		at = &(*at)->next;
	if (*at)
		*at = (*at)->next;
}

/* Make an ACL agree with the mode about owner and others, since an unpack sets the mode last. */
static int fit_acl_to_mode(struct apply *a, struct inode *i, struct error *err)
{
	const struct xattr *x = i->xattrs;
	AUTO_FREE uint8_t *acl = NULL;
	enum acl_change change;

	while (x && strcmp(x->name, XATTR_NAME_POSIX_ACL_ACCESS) != 0)
		x = x->next;
	if (!x || x->size == 0)
		return 0;
	acl = malloc(x->size);
	if (!acl)
		return error_nomem(err);
	memcpy(acl, x->value, x->size);
	change = acl_chmod(acl, x->size, i->mode);
	if (change == ACL_GONE)
		drop_xattr(i, XATTR_NAME_POSIX_ACL_ACCESS);
	if (change == ACL_CHANGED &&
	    tree_set_xattr(a->tree, i, XATTR_NAME_POSIX_ACL_ACCESS, acl,
			   x->size) < 0)
		return error_nomem(err);
	return 0;
}

static int set_attributes(struct apply *a, const struct layer_entry *e,
			  struct inode *i, struct error *err)
{
	int rc;

	set_stat(e, i);
	i->user = a->layer;
	i->xattrs = NULL;
	rc = add_xattrs(a, e, i, err);
	return rc < 0 ? rc : fit_acl_to_mode(a, i, err);
}

/*
 * A hard link's header sets the file's attributes under all its names.  Its xattrs are added to
 * those of the file, except its capabilities, which Linux removes when the owner is set.
 */
static int set_link_attributes(struct apply *a, const struct layer_entry *e,
			       struct inode *i, struct error *err)
{
	int rc;

	set_stat(e, i);
	drop_xattr(i, XATTR_NAME_CAPS);
	rc = add_xattrs(a, e, i, err);
	return rc < 0 ? rc : fit_acl_to_mode(a, i, err);
}

static int apply_hard_link(struct apply *a, const struct layer_entry *e,
			   struct inode *dir, const char *base,
			   struct error *err)
{
	/* a copy, since cleaning the target uses the same buffer */
	AUTO_FREE char *name = strdup(base);
	struct inode *target_dir = NULL;
	struct dentry *d;
	const char *cut, *target;
	int rc;

	if (!name)
		return error_nomem(err);
	rc = clean_path(a, e->link, err);
	if (rc < 0)
		return error_wrap(err, rc, "hard link to '%.200s'", e->link);
	cut = memrchr(a->path.data, '/', a->path.len);
	target = cut ? cut + 1 : a->path.data;
	rc = walk_path(a, e, a->path.data, (size_t)(target - a->path.data),
		       false, &target_dir, err);
	if (rc < 0)
		return error_wrap(err, rc, "hard link to '%.200s'", e->link);
	d = tree_find(a->tree, target_dir, target, strlen(target));
	if (!d)
		return error_set(err, ENOENT,
				 "hard link to '%.200s', which does not exist",
				 e->link);
	if (S_ISDIR(d->inode->mode))
		return error_set(err, EINVAL,
				 "hard link to '%.200s', which is a folder",
				 e->link);
	rc = link_name(a, dir, name, strlen(name), d->inode, err);
	if (rc == 0)
		rc = set_link_attributes(a, e, d->inode, err);
	if (rc < 0)
		return rc;
	if (d->inode->user == a->layer)
		return 0;
	return links_add(a, tree_find(a->tree, dir, name, strlen(name)), err);
}

static int new_inode(struct apply *a, const struct layer_entry *e,
		     struct inode **ret, struct error *err)
{
	struct inode *i = tree_inode_new(a->tree, e->mode);

	if (!i)
		return error_nomem(err);
	if (S_ISLNK(e->mode)) {
		size_t len = strlen(e->link);
		char *target;

		if (len == 0 || len > TREE_SYMLINK_MAX)
			return error_set(err, EINVAL,
					 "its target is empty or longer than "
					 "%d bytes",
					 TREE_SYMLINK_MAX);
		target = tree_alloc(a->tree, len + 1);
		if (!target)
			return error_nomem(err);
		memcpy(target, e->link, len + 1);
		i->target = target;
		i->size = len;
	} else if (S_ISREG(e->mode)) {
		i->size = e->size;
	} else if (S_ISBLK(e->mode) || S_ISCHR(e->mode)) {
		i->major = e->major;
		i->minor = e->minor;
	}
	*ret = i;
	return 0;
}

/* Check an entry before anything is changed. */
static int check_entry(struct apply *a, const struct layer_entry *e,
		       struct error *err)
{
	if (++a->n_entries > APPLY_ENTRIES_MAX)
		return error_set(err, E2BIG, "more than %llu entries",
				 (unsigned long long)APPLY_ENTRIES_MAX);
	if (e->hard)
		return e->link ? 0 : error_set(err, EINVAL, "link to nothing");
	switch (e->mode & S_IFMT) {
	case S_IFREG:
		if (e->size > APPLY_FILE_MAX)
			return error_set(err, EFBIG,
					 "a file of %llu bytes; %llu is the "
					 "most",
					 (unsigned long long)e->size,
					 (unsigned long long)APPLY_FILE_MAX);
		return 0;
	case S_IFBLK:
	case S_IFCHR:
		if (e->major > MAJOR_MAX || e->minor > MINOR_MAX)
			return error_set(err, EINVAL,
					 "device number %u:%u is out of range",
					 e->major, e->minor);
		return 0;
	case S_IFLNK:
		return e->link ? 0 : error_set(err, EINVAL, "link to nothing");
	case S_IFDIR:
	case S_IFIFO:
		return 0;
	default:
		return error_set(err, EINVAL, "kind %o is unknown",
				 e->mode & S_IFMT);
	}
}

int apply_entry(struct apply *a, const struct layer_entry *e,
		struct inode **ret, struct error *err)
{
	struct inode *dir = NULL, *i = NULL;
	const char *cut, *base;
	struct dentry *d;
	bool is_whiteout;
	int rc;

	*ret = NULL;
	rc = check_entry(a, e, err);
	if (rc == 0)
		rc = check_memory(a, err);
	if (rc == 0)
		rc = clean_path(a, e->path, err);
	if (rc < 0)
		return rc;
	if (a->path.len == 0) {
		if (e->hard || !S_ISDIR(e->mode))
			return error_set(err, EINVAL,
					 "the root can only be a folder");
		return set_attributes(a, e, tree_root(a->tree), err);
	}
	cut = memrchr(a->path.data, '/', a->path.len);
	base = cut ? cut + 1 : a->path.data;
	rc = walk_path(a, e, a->path.data, (size_t)(base - a->path.data), true,
		       &dir, err);
	if (rc < 0)
		return rc;
	is_whiteout =
		strncmp(base, WHITEOUT_PREFIX, strlen(WHITEOUT_PREFIX)) == 0;
	mark_folder_used(a, dir, is_whiteout);
	if (is_whiteout)
		return apply_whiteout(a, dir, base, err);

	d = tree_find(a->tree, dir, base, strlen(base));
	if (d && !e->hard && S_ISDIR(e->mode) && S_ISDIR(d->inode->mode))
		return set_attributes(a, e, d->inode, err);
	if (d)
		tree_unlink(a->tree, d);
	if (e->hard)
		return apply_hard_link(a, e, dir, base, err);
	if (S_ISDIR(e->mode)) {
		rc = check_depth(a, dir, err);
		if (rc < 0)
			return rc;
	}
	rc = new_inode(a, e, &i, err);
	if (rc == 0)
		rc = set_attributes(a, e, i, err);
	if (rc == 0)
		rc = link_name(a, dir, base, strlen(base), i, err);
	if (rc == 0 && S_ISREG(e->mode))
		*ret = i;
	return rc;
}
