// SPDX-License-Identifier: Apache-2.0
/*
 * Merged snapshots: caches that many nodes add files to.  A cache is the union of its files by
 * path.  If a path has two sizes, the larger file wins, as the shorter one was cut off or is an
 * older state of a list.  So neither clocks nor the order of nodes matter.  Each new snapshot
 * replaces the previous one and includes all of it.
 */
#include "envcache/merge.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "envcache/load.h"
#include "envcache/scan.h"

/* The file at a path, on one of the two sides. */
struct merge_file {
	mode_t kind; /* S_IFMT */
	uint64_t size;
};

/* Shall file `a` replace file `b`? */
static bool replaces_file(const struct merge_file *a,
			  const struct merge_file *b)
{
	return S_ISREG(a->kind) && S_ISREG(b->kind) && a->size > b->size;
}

static struct merge_file file_of_tree(const struct inode *i)
{
	return (struct merge_file){ .kind = i->mode & S_IFMT, .size = i->size };
}

static struct merge_file file_of_stat(const struct stat *st)
{
	return (struct merge_file){ .kind = st->st_mode & S_IFMT,
				    .size = (uint64_t)st->st_size };
}

bool merge_keeps(const struct stat *ours, const struct inode *theirs)
{
	const struct merge_file a = file_of_tree(theirs),
				b = file_of_stat(ours);

	return !replaces_file(&a, &b);
}

bool env_key_merges(const struct env_key *k)
{
	for (size_t i = 0; i < k->n; i++)
		if (strcmp(k->items[i].kind, "merge") == 0)
			return true;
	return false;
}

/* ------------------------------------------------------------ what the targets lack --- */

static int prune_folder(struct tree *t, struct inode *dir, int at,
			struct error *err);

/* Remove the name from the tree, unless the folder `at` lacks it or something below it. */
static int prune_name(struct tree *t, struct dentry *d, int at,
		      struct error *err)
{
	struct merge_file ours, theirs = file_of_tree(d->inode);
	AUTO_CLOSE int below = -1;
	struct stat st;
	int rc = 0;

	if (fstatat(at, d->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT
			       ? 0
			       : error_errno(err, errno, "'%.160s'", d->name);
	ours = file_of_stat(&st);
	if (S_ISDIR(theirs.kind) && S_ISDIR(ours.kind)) {
		below = openat(at, d->name,
			       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (below < 0)
			return error_errno(err, errno, "open '%.160s'",
					   d->name);
		rc = prune_folder(t, d->inode, below, err);
		if (rc == 0 && !d->inode->children)
			tree_unlink(t, d);
	} else if (!replaces_file(&theirs, &ours)) {
		tree_unlink(t, d);
	}
	return rc;
}

static int prune_folder(struct tree *t, struct inode *dir, int at,
			struct error *err)
{
	struct dentry *next;
	int rc = 0;

	for (struct dentry *d = dir->children; rc == 0 && d; d = next) {
		next = d->next;
		rc = prune_name(t, d, at, err);
	}
	return rc;
}

int merge_prune(struct tree *t, struct error *err)
{
	AUTO_CLOSE int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return root < 0 ? error_errno(err, errno, "open '/'")
			: prune_folder(t, tree_root(t), root, err);
}

/* ---------------------------------------------------------- what the snapshot lacks --- */

/* Find the inode at the absolute path in the tree, or NULL. */
static const struct inode *find_path(struct tree *t, const char *path)
{
	struct inode *i = tree_root(t);

	while (i && *path == '/') {
		size_t len = strcspn(++path, "/");
		const struct dentry *d =
			S_ISDIR(i->mode) ? tree_find(t, i, path, len) : NULL;

		i = d ? d->inode : NULL;
		path += len;
	}
	return i;
}

static bool has_more_than_snapshot(struct tree *t, const struct env_scan *now)
{
	for (size_t k = 0; k < now->n; k++) {
		const struct env_entry *e = &now->entries[k];
		const struct merge_file ours = { .kind = e->mode & S_IFMT,
						 .size = e->size };
		const struct inode *i;
		struct merge_file theirs;

		if (S_ISDIR(e->mode))
			continue;
		i = t ? find_path(t, e->path) : NULL;
		if (!i)
			return true;
		theirs = file_of_tree(i);
		if (replaces_file(&ours, &theirs))
			return true;
	}
	return false;
}

int env_merge_has_more(struct object_store *s, const struct env_snapshot *snap,
		       const struct env_targets *targets, bool *ret,
		       struct error *err)
{
	AUTO(env_scan) now = NULL;
	AUTO(loaded) l = NULL;
	int rc = env_scan_new(targets, &now, err);

	if (rc == 0 && snap)
		rc = loaded_open(s, snap, NULL, &l, err);
	if (rc == 0)
		*ret = has_more_than_snapshot(l ? l->tree : NULL, now);
	return rc;
}
