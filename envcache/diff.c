// SPDX-License-Identifier: Apache-2.0
/*
 * Compare two trees by merging their folders: children are sorted by name, as in metadata images.
 * diff_content.c compares contents.
 */
#include "envcache/diff.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/bytes.h"
#include "envcache/changes.h"
#include "envcache/diff_content.h"

struct differ {
	struct env_diff *d;
	struct content_side a, b;
	struct buf path;     /* path of the present entry, escaped */
	const char **xattrs; /* memory for the names of both entries */
	size_t cap_xattrs;
};

/* ----------------------------------------------------------------------- what is told --- */

static struct env_thing describe_inode(const struct inode *i)
{
	struct env_thing t = { .uid = i->uid,
			       .gid = i->gid,
			       .major = i->major,
			       .minor = i->minor,
			       .mtime_nsec = i->mtime_nsec,
			       .mtime = i->mtime };

	if (!change_is_whiteout(i))
		t.mode = i->mode;
	if (S_ISREG(i->mode))
		t.size = i->size;
	if (S_ISLNK(i->mode))
		t.target = i->target;
	return t;
}

static int report_difference(struct differ *w, const struct inode *a,
			     const struct inode *b, unsigned int in,
			     const char *const *xattrs, struct error *err)
{
	static const char *const none[] = { NULL };
	struct env_thing x, y;
	struct env_difference diff = { .path = w->path.data,
				       .in = in,
				       .xattrs = xattrs ? xattrs : none };

	if (a) {
		x = describe_inode(a);
		diff.a = &x;
	}
	if (b) {
		y = describe_inode(b);
		diff.b = &y;
	}
	if (a && b) {
		w->d->n_changed++;
	} else if (a) {
		w->d->n_removed++;
		w->d->removed_bytes += x.size;
	} else {
		w->d->n_added++;
		w->d->added_bytes += y.size;
	}
	return w->d->fn(w->d->arg, &diff, err);
}

/* ------------------------------------------------------------------------- attributes --- */

/* List the names of `i` whose values differ in `other`; with `missing`, only names that `other`
 * lacks. */
static size_t gather_xattrs(const struct inode *i, const struct inode *other,
			    bool missing, const char **ret)
{
	size_t n = 0;

	for (const struct xattr *x = i->xattrs; x; x = x->next) {
		const struct xattr *y = tree_xattr(other, x->name);

		if (!y || (!missing && (x->size != y->size ||
					memcmp(x->value, y->value, x->size))))
			ret[n++] = x->name;
	}
	return n;
}

/* Collect the names that differ in w->xattrs, `*ret_n` of them. */
static int compare_xattrs(struct differ *w, const struct inode *a,
			  const struct inode *b, size_t *ret_n,
			  struct error *err)
{
	size_t most = tree_count_xattrs(a) + tree_count_xattrs(b) + 1;
	size_t n;

	*ret_n = 0;
	if (!a->xattrs && !b->xattrs)
		return 0;
	if (most > w->cap_xattrs) {
		const char **v =
			realloc((void *)w->xattrs, most * sizeof(const char *));

		if (!v)
			return error_nomem(err);
		w->xattrs = v;
		w->cap_xattrs = most;
	}
	n = gather_xattrs(a, b, false, w->xattrs);
	n += gather_xattrs(b, a, true, w->xattrs + n);
	w->xattrs[n] = NULL;
	*ret_n = n;
	return 0;
}

/* Are both linked to the same earlier file?  Each name of a hard link must map to the same pair. */
static bool is_linked_alike(struct inode *a, struct inode *b)
{
	bool alike = (!a->user_ptr || a->user_ptr == b) &&
		     (!b->user_ptr || b->user_ptr == a);

	if (!a->user_ptr)
		a->user_ptr = b;
	if (!b->user_ptr)
		b->user_ptr = a;
	return alike;
}

static unsigned int compare_attributes(const struct differ *w, struct inode *a,
				       struct inode *b)
{
	unsigned int in = 0;

	if ((a->mode & 07777) != (b->mode & 07777))
		in |= ENV_DIFFERS_MODE;
	if (a->uid != b->uid || a->gid != b->gid)
		in |= ENV_DIFFERS_OWNER;
	if (!w->d->no_times &&
	    (a->mtime != b->mtime || a->mtime_nsec != b->mtime_nsec))
		in |= ENV_DIFFERS_TIME;
	if (S_ISLNK(a->mode) && strcmp(a->target, b->target) != 0)
		in |= ENV_DIFFERS_TARGET;
	if (a->major != b->major || a->minor != b->minor)
		in |= ENV_DIFFERS_DEVICE;
	if (!S_ISDIR(a->mode) && !is_linked_alike(a, b))
		in |= ENV_DIFFERS_LINKS;
	return in;
}

static bool is_of_one_type(const struct inode *a, const struct inode *b)
{
	return (a->mode & S_IFMT) == (b->mode & S_IFMT) &&
	       change_is_whiteout(a) == change_is_whiteout(b);
}

static int compare_things(struct differ *w, struct inode *a, struct inode *b,
			  struct error *err)
{
	unsigned int in;
	size_t n_xattrs;
	bool same = true;
	int rc;

	if (!is_of_one_type(a, b))
		return report_difference(w, a, b, ENV_DIFFERS_TYPE, NULL, err);
	/* The attributes of a whiteout mean nothing. */
	if (change_is_whiteout(a))
		return 0;
	in = compare_attributes(w, a, b);
	rc = compare_xattrs(w, a, b, &n_xattrs, err);
	if (rc == 0 && S_ISREG(a->mode))
		rc = content_is_same(&w->a, a, &w->b, b, &same, err);
	if (rc < 0)
		return error_wrap(err, rc, "'%.160s'", w->path.data);
	if (n_xattrs)
		in |= ENV_DIFFERS_XATTR;
	if (!same)
		in |= ENV_DIFFERS_CONTENT;
	return in ? report_difference(w, a, b, in, n_xattrs ? w->xattrs : NULL,
				      err)
		  : 0;
}

/* ------------------------------------------------------------------------------ walks --- */

/* Append a child's name to the path; `*ret_len` is for leave(). */
static int enter_child(struct differ *w, const struct dentry *d,
		       size_t *ret_len, struct error *err)
{
	*ret_len = w->path.len;
	if (buf_puts(&w->path, "/") < 0 ||
	    tree_put_escaped(&w->path, d->name, d->name_len) < 0)
		return error_nomem(err);
	return 0;
}

static void leave_child(struct differ *w, size_t len)
{
	if (!w->path.data)
		return;
	w->path.len = len;
	w->path.data[len] = '\0';
}

/* Report an entry that only one side has, and all entries below it. */
static int report_one_sided(struct differ *w, const struct inode *i, bool is_a,
			    struct error *err)
{
	int rc = report_difference(w, is_a ? i : NULL, is_a ? NULL : i, 0, NULL,
				   err);

	if (!S_ISDIR(i->mode))
		return rc;
	for (const struct dentry *d = i->children; rc == 0 && d; d = d->next) {
		size_t len;

		rc = enter_child(w, d, &len, err);
		if (rc == 0)
			rc = report_one_sided(w, d->inode, is_a, err);
		leave_child(w, len);
	}
	return rc;
}

static int compare_names(const struct dentry *a, const struct dentry *b)
{
	size_t n = a->name_len < b->name_len ? a->name_len : b->name_len;
	int c = memcmp(a->name, b->name, n);

	return c ? c : (int)a->name_len - (int)b->name_len;
}

static int compare_folder_entries(struct differ *w, struct inode *a,
				  struct inode *b, struct error *err);

/* Compare a name; `a` or `b` is NULL if that snapshot does not have it. */
static int compare_one_name(struct differ *w, const struct dentry *a,
			    const struct dentry *b, struct error *err)
{
	size_t len;
	int rc = enter_child(w, a ? a : b, &len, err);

	if (rc == 0 && a && b) {
		rc = compare_things(w, a->inode, b->inode, err);
		if (rc == 0)
			rc = compare_folder_entries(w, a->inode, b->inode, err);
	} else if (rc == 0) {
		rc = report_one_sided(w, a ? a->inode : b->inode, a != NULL,
				      err);
	}
	leave_child(w, len);
	return rc;
}

/* Compare the entries of two folders; an inode of another type has none. */
static int compare_folder_entries(struct differ *w, struct inode *a,
				  struct inode *b, struct error *err)
{
	const struct dentry *x = S_ISDIR(a->mode) ? a->children : NULL;
	const struct dentry *y = S_ISDIR(b->mode) ? b->children : NULL;
	int rc = 0;

	while (rc == 0 && (x || y)) {
		int c = !x ? 1 : !y ? -1 : compare_names(x, y);

		rc = compare_one_name(w, c <= 0 ? x : NULL, c >= 0 ? y : NULL,
				      err);
		if (c <= 0)
			x = x->next;
		if (c >= 0)
			y = y->next;
	}
	return rc;
}

int env_diff(struct object_store *s, const struct env_snapshot *a,
	     const struct env_snapshot *b, struct env_diff *d,
	     struct error *err)
{
	struct differ w = { .d = d };
	AUTO(loaded) x = NULL;
	AUTO(loaded) y = NULL;
	int rc = loaded_open(s, a, NULL, &x, err);

	d->n_removed = d->n_added = d->n_changed = 0;
	d->removed_bytes = d->added_bytes = d->fetched = 0;
	if (rc == 0)
		rc = loaded_open(s, b, NULL, &y, err);
	if (rc < 0)
		return rc;
	rc = content_side_init(&w.a, x, err);
	if (rc == 0)
		rc = content_side_init(&w.b, y, err);
	/* The roots are not compared, as '/' is never a target. */
	if (rc == 0)
		rc = compare_folder_entries(&w, tree_root(x->tree),
					    tree_root(y->tree), err);
	d->fetched = w.a.fetched + w.b.fetched;
	if (w.a.l)
		content_side_fini(&w.a);
	if (w.b.l)
		content_side_fini(&w.b);
	buf_fini(&w.path);
	free((void *)w.xattrs);
	return rc;
}
