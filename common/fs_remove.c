// SPDX-License-Identifier: Apache-2.0
/*
 * Removal of trees that a container made as deep as it likes, by mkdir(2) and chdir(2): too deep
 * for a path, for descriptors and for recursion.  So the walk holds a descriptor for each of at
 * most LEVELS levels; a deeper folder is moved to the top of the tree and removed there.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"

#define LEVELS 64

struct remove_level {
	DIR *dir;
	bool did; /* an entry was removed since the folder was last read
	           * from its beginning */
	char name[NAME_MAX + 1]; /* name of this folder in the level above */
};

struct removal {
	struct remove_level levels[LEVELS];
	int depth; /* levels that are open */
	dev_t dev;
	uint64_t n_moved;
};

/* Open the folder `name` as the next level.  -ENOENT: it is gone. */
static int fs_remove_push(struct removal *r, int parent, const char *name)
{
	struct remove_level *l = &r->levels[r->depth];
	int fd = openat(parent, name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	int rc;

	if (fd < 0)
		return -errno;
	rc = fstat(fd, &st) < 0 ? -errno : 0;
	if (rc == 0 && r->depth == 0)
		r->dev = st.st_dev;
	/* An owner other than root needs these rights to remove entries of the folder. */
	if (rc == 0 && (st.st_mode & 0300) != 0300 && st.st_uid == geteuid() &&
	    st.st_uid != 0)
		(void)!fchmod(fd, (st.st_mode & 07777) | 0300);
	/* A mount point cannot be removed. */
	if (rc == 0 && st.st_dev != r->dev)
		rc = -EBUSY;
	l->dir = rc == 0 ? fdopendir(fd) : NULL;
	if (!l->dir) {
		rc = rc ? rc : -errno;
		(void)close(fd);
		return rc;
	}
	l->did = false;
	(void)snprintf(l->name, sizeof(l->name), "%s", name);
	r->depth++;
	return 0;
}

/* Move the folder to the top of the tree, under an unused name. */
static int move_folder_to_top(struct removal *r, int from, const char *name)
{
	int top = dirfd(r->levels[0].dir);
	char to[40];

	do {
		(void)snprintf(to, sizeof(to), ".removed-%llu",
			       (unsigned long long)r->n_moved++);
		if (renameat2(from, name, top, to, RENAME_NOREPLACE) == 0)
			return 0;
	} while (errno == EEXIST);
	return -errno;
}

static bool is_folder(int fd, const struct dirent *d)
{
	struct stat st;

	if (d->d_type != DT_UNKNOWN)
		return d->d_type == DT_DIR;
	return fstatat(fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISDIR(st.st_mode);
}

static int remove_entry(struct removal *r, struct remove_level *l,
			const struct dirent *d)
{
	int fd = dirfd(l->dir), rc;

	if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
		return 0;
	if (!is_folder(fd, d))
		rc = unlinkat(fd, d->d_name, 0) < 0 ? -errno : 0;
	else if (r->depth == LEVELS)
		rc = move_folder_to_top(r, fd, d->d_name);
	else
		rc = fs_remove_push(r, fd, d->d_name);
	/* An unreadable folder can still be removed if it is empty. */
	if (rc == -EACCES && unlinkat(fd, d->d_name, AT_REMOVEDIR) == 0)
		rc = 0;
	if (rc == 0)
		l->did = true;
	return rc == -ENOENT ? 0 : rc;
}

/* Remove the innermost folder, which has been read to its end. */
static int fs_remove_pop(struct removal *r, const char *path)
{
	struct remove_level *l = &r->levels[r->depth - 1];
	int parent = r->depth > 1 ? dirfd(l[-1].dir) : AT_FDCWD;
	const char *name = r->depth > 1 ? l->name : path;

	if (unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno != ENOENT) {
		/* Entries came meanwhile, or the file system left some out
		 * of its list while others went: read the folder again. */
		if (errno != ENOTEMPTY || !l->did)
			return -errno;
		l->did = false;
		rewinddir(l->dir);
		return 0;
	}
	(void)closedir(l->dir);
	r->depth--;
	return 0;
}

static int remove_all(struct removal *r, const char *path)
{
	int rc = fs_remove_push(r, AT_FDCWD, path);

	if (rc == -ENOTDIR || rc == -ELOOP)
		return unlink(path) < 0 ? -errno : 0;
	while (rc == 0 && r->depth) {
		struct remove_level *l = &r->levels[r->depth - 1];
		const struct dirent *d;

		errno = 0;
		d = readdir(l->dir);
		if (d)
			rc = remove_entry(r, l, d);
		else
			rc = errno ? -errno : fs_remove_pop(r, path);
	}
	while (r->depth)
		(void)closedir(r->levels[--r->depth].dir);
	return rc;
}

int fs_remove_tree(const char *path, struct error *err)
{
	struct removal r;
	int rc;

	r.depth = 0;
	r.n_moved = 0;
	rc = remove_all(&r, path);
	if (rc == 0 || rc == -ENOENT)
		return 0;
	return error_errno(err, -rc, "remove '%s'", path);
}
