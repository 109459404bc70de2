// SPDX-License-Identifier: Apache-2.0
/*
 * Compare two scans.  New and changed entries go into the tree completely, as in an overlay's
 * upper folder; a removed name becomes a whiteout (character device 0:0) if its folder still
 * exists.
 */
#include "envcache/changes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "common/clock.h"
#include "common/fs.h"
#include "envcache/xattrs.h"

/* An inode of the target with several names (hard links). */
struct shared_inode {
	uint64_t dev, ino;
	struct inode *inode; /* in the tree; NULL: not added yet */
};

struct finder {
	struct changes *c;
	const struct env_scan *after;
	struct shared_inode *shared;
	size_t n_shared;
};

bool change_is_whiteout(const struct inode *i)
{
	return S_ISCHR(i->mode) && i->major == 0 && i->minor == 0;
}

/* --------------------------------------------------------------- shared inodes --- */

static int compare_shared(const void *a, const void *b)
{
	const struct shared_inode *x = a, *y = b;

	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

static bool is_shared(const struct env_entry *e)
{
	return !S_ISDIR(e->mode) && e->nlink > 1;
}

static int find_shared(struct finder *f, struct error *err)
{
	size_t n = 0, k = 0;

	for (size_t i = 0; i < f->after->n; i++)
		n += is_shared(&f->after->entries[i]);
	f->shared = calloc(n + 1, sizeof(*f->shared));
	if (!f->shared)
		return error_nomem(err);
	for (size_t i = 0; i < f->after->n; i++) {
		const struct env_entry *e = &f->after->entries[i];

		if (is_shared(e))
			f->shared[k++] = (struct shared_inode){ .dev = e->dev,
								.ino = e->ino };
	}
	qsort(f->shared, n, sizeof(*f->shared), compare_shared);
	for (size_t i = 0; i < n; i++)
		if (f->n_shared == 0 ||
		    compare_shared(&f->shared[f->n_shared - 1],
				   &f->shared[i]) != 0)
			f->shared[f->n_shared++] = f->shared[i];
	return 0;
}

static struct shared_inode *shared_of(const struct finder *f,
				      const struct env_entry *e)
{
	const struct shared_inode key = { .dev = e->dev, .ino = e->ino };

	return is_shared(e) ? bsearch(&key, f->shared, f->n_shared,
				      sizeof(*f->shared), compare_shared)
			    : NULL;
}

/* ---------------------------------------------------------------------- inodes --- */

static const struct env_entry *find_entry(const struct env_scan *s,
					  const char *path)
{
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int order = env_path_compare(s->entries[mid].path, path);

		if (order == 0)
			return &s->entries[mid];
		if (order < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

static void set_attributes(struct inode *i, const struct env_entry *e)
{
	const struct timespec t = clock_timespec(e->mtime_ns);

	i->uid = e->uid;
	i->gid = e->gid;
	i->mtime = t.tv_sec;
	i->mtime_nsec = (uint32_t)t.tv_nsec;
	if (S_ISCHR(e->mode) || S_ISBLK(e->mode)) {
		i->major = major(e->rdev);
		i->minor = minor(e->rdev);
	}
}

static int set_content(struct tree *t, struct inode *i,
		       const struct env_entry *e, struct error *err)
{
	char *target;

	if (S_ISREG(e->mode))
		i->size = e->size;
	if (!S_ISLNK(e->mode))
		return 0;
	i->size = strlen(e->link);
	if (i->size > TREE_SYMLINK_MAX)
		return error_set(err, ENOTSUP, "where it leads is too long");
	target = tree_alloc(t, i->size + 1);
	if (!target)
		return error_nomem(err);
	memcpy(target, e->link, i->size + 1);
	i->target = target;
	return 0;
}

static int new_inode(struct tree *t, const struct env_entry *e,
		     struct inode **ret, struct error *err)
{
	AUTO_CLOSE int fd = -1;
	struct inode *i = tree_inode_new(t, e->mode);
	int rc = i ? 0 : error_nomem(err);

	if (rc < 0)
		return rc;
	set_attributes(i, e);
	if (change_is_whiteout(i))
		return error_set(err, ENOTSUP,
				 "'%.160s' is a device 0:0, which says in a "
				 "snapshot that a name was deleted",
				 e->path);
	rc = set_content(t, i, e, err);
	/* Attributes of a regular file are read later, when it is open for its content. */
	if (rc == 0 && !S_ISREG(e->mode)) {
		rc = env_entry_open(e, &fd, err);
		if (rc == 0)
			rc = xattrs_read(fd, t, i, err);
	}
	if (rc < 0)
		return error_wrap(err, rc, "'%.160s'", e->path);
	*ret = i;
	return 0;
}

static int link_inode(struct tree *t, struct inode *dir, const char *name,
		      struct inode *i, struct error *err)
{
	int rc = tree_link(t, dir, name, strlen(name), i);

	return rc < 0 ? error_errno(err, -rc, "name '%.200s'", name) : 0;
}

/* -------------------------------------------------------------------- folders --- */

/* The entry of a folder above the targets, as it is now. */
static int read_outer_folder(const char *path, struct env_entry *ret,
			     struct error *err)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return error_set(err, errno == ENOENT ? ESTALE : errno,
				 "'%.160s': %s", path, strerror(errno));
	*ret = (struct env_entry){ .mode = st.st_mode,
				   .uid = st.st_uid,
				   .gid = st.st_gid };
	return 0;
}

/* Add the folder `path` to the tree, as a child of `parent`. */
static int add_folder(struct finder *f, struct inode *parent, const char *path,
		      const char *name, struct inode **ret, struct error *err)
{
	const struct env_entry *e = find_entry(f->after, path);
	struct tree *t = f->c->tree;
	struct env_entry outer = { .path = NULL };
	int rc;

	if (e) {
		rc = new_inode(t, e, ret, err);
	} else {
		rc = read_outer_folder(path, &outer, err);
		*ret = rc < 0 ? NULL : tree_inode_new(t, outer.mode);
		if (rc == 0 && !*ret)
			rc = error_nomem(err);
		if (rc == 0)
			set_attributes(*ret, &outer);
	}
	return rc < 0 ? rc : link_inode(t, parent, name, *ret, err);
}

/* Get the folder with the first `len` bytes of `path` in the tree, added if needed. */
static int get_folder(struct finder *f, const char *path, size_t len,
		      struct inode **ret, struct error *err)
{
	AUTO_FREE char *p = strndup(path, len);
	struct inode *dir = tree_root(f->c->tree);
	int rc = p ? 0 : error_nomem(err);
	char *at = p;

	while (rc == 0 && *at) {
		char *name = at + 1, *end = strchr(name, '/');
		const struct dentry *d;

		if (end)
			*end = '\0';
		d = tree_find(f->c->tree, dir, name, strlen(name));
		if (d)
			dir = d->inode;
		else
			rc = add_folder(f, dir, p, name, &dir, err);
		if (end)
			*end = '/';
		at = end ? end : name + strlen(name);
	}
	*ret = dir;
	return rc;
}

/* --------------------------------------------------------------------- changes --- */

static int add_file(struct changes *c, struct inode *i,
		    const struct env_entry *e, struct error *err)
{
	if (!S_ISREG(e->mode))
		return 0;
	if (c->n_files == c->cap) {
		size_t cap = c->cap ? c->cap * 2 : 1024;
		struct changed_file *v = realloc(c->files, cap * sizeof(*v));

		if (!v)
			return error_nomem(err);
		c->files = v;
		c->cap = cap;
	}
	c->files[c->n_files++] = (struct changed_file){ i, e };
	c->bytes += e->size;
	return 0;
}

/* Add a new or changed name to the tree. */
static int add_change(struct finder *f, const struct env_entry *e,
		      struct error *err)
{
	const char *name = strrchr(e->path, '/') + 1;
	struct shared_inode *s = shared_of(f, e);
	struct inode *dir, *i = s ? s->inode : NULL;
	bool is_first = !i;
	int rc;

	f->c->n_changed++;
	if (S_ISDIR(e->mode))
		return get_folder(f, e->path, strlen(e->path), &dir, err);
	rc = get_folder(f, e->path, (size_t)(name - 1 - e->path), &dir, err);
	if (rc == 0 && is_first)
		rc = new_inode(f->c->tree, e, &i, err);
	if (rc == 0)
		rc = link_inode(f->c->tree, dir, name, i, err);
	if (rc == 0 && is_first)
		rc = add_file(f->c, i, e, err);
	if (rc == 0 && s)
		s->inode = i;
	return rc;
}

static int add_deletion(struct finder *f, const struct env_entry *e,
			struct error *err)
{
	const char *name = strrchr(e->path, '/') + 1;
	AUTO_FREE char *parent = strndup(e->path, (size_t)(name - 1 - e->path));
	const struct env_entry *in;
	struct inode *dir, *i;
	int rc;

	if (!parent)
		return error_nomem(err);
	in = find_entry(f->after, parent);
	/* If its folder is gone too, or became a file, no whiteout is needed. */
	if (!in || !S_ISDIR(in->mode))
		return 0;
	f->c->n_deleted++;
	rc = get_folder(f, parent, strlen(parent), &dir, err);
	i = rc < 0 ? NULL : tree_inode_new(f->c->tree, S_IFCHR);
	if (rc == 0 && !i)
		rc = error_nomem(err);
	return rc < 0 ? rc : link_inode(f->c->tree, dir, name, i, err);
}

static int is_changed(const struct env_entry *was, const struct env_entry *is,
		      bool *ret, struct error *err)
{
	struct digest now;
	int rc;

	*ret = !env_entry_is_same(was, is);
	if (*ret || !was->has_content)
		return 0;
	rc = env_entry_hash(is, &now, err);
	*ret = rc < 0 || !digest_equal(&now, &was->content);
	return rc;
}

static int compare_scans(struct finder *f, const struct env_scan *before,
			 struct error *err)
{
	const struct env_scan *after = f->after;
	size_t i = 0, k = 0;
	int rc = 0;

	while (rc == 0 && (i < before->n || k < after->n)) {
		const struct env_entry *was = &before->entries[i];
		const struct env_entry *is = &after->entries[k];
		int order = i == before->n ? 1
			    : k == after->n
				    ? -1
				    : env_path_compare(was->path, is->path);
		/* Entries hidden by a mount, now or before, are not compared. */
		bool changed =
			order > 0 && !env_scan_is_covered(before, is->path);

		if (order == 0)
			rc = is_changed(was, is, &changed, err);
		if (rc == 0 && changed)
			rc = add_change(f, is, err);
		if (rc == 0 && order < 0 &&
		    !env_scan_is_covered(after, was->path))
			rc = add_deletion(f, was, err);
		i += order <= 0;
		k += order >= 0;
	}
	return rc;
}

static int check_targets(const struct env_scan *after,
			 const struct env_targets *t, struct error *err)
{
	for (size_t i = 0; i < t->n; i++)
		if (!find_entry(after, t->paths[i]))
			return error_set(err, ENOTSUP,
					 "the command left no target "
					 "'%.200s'",
					 t->paths[i]);
	return 0;
}

int changes_find(const struct env_scan *before, const struct env_scan *after,
		 const struct env_targets *t, struct changes *ret,
		 struct error *err)
{
	struct changes c = { .tree = tree_new() };
	struct finder f = { .c = &c, .after = after };
	struct inode *dir;
	int rc = c.tree ? check_targets(after, t, err) : error_nomem(err);

	if (rc == 0)
		rc = find_shared(&f, err);
	if (rc == 0)
		rc = compare_scans(&f, before, err);
	/* Empty targets are added too, as they may not exist where the snapshot is restored. */
	for (size_t i = 0; rc == 0 && i < before->n; i++)
		if (env_scan_is_empty_target(before, t, i))
			rc = get_folder(&f, before->entries[i].path,
					strlen(before->entries[i].path), &dir,
					err);
	free(f.shared);
	if (rc < 0)
		changes_fini(&c);
	else
		*ret = c;
	return rc;
}

void changes_fini(struct changes *c)
{
	tree_free(c->tree);
	free(c->files);
	*c = (struct changes){ .n_files = 0 };
}
