// SPDX-License-Identifier: Apache-2.0
/*
 * overlayfs shows owner, mode, time and xattrs of a folder from the topmost layer
 * that has it.  A layer that names a file but not the file's folder says nothing
 * of that folder: it keeps what it had (containerd's apply copies it too).  What
 * the layers show at a path is found as overlayfs finds it, part by part from the
 * root; a folder in it has no symlinks on its path.
 */
#include "snapshotter/node/layers/unpack_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define XATTR_LIST_BYTES 65536 /* Linux' XATTR_LIST_MAX, and XATTR_SIZE_MAX */

/* ------------------------------------------------------------------- views --- */

static void clear_view(struct unpack *u)
{
	struct layer_view *v = &u->view;

	if (v->path.len > 0)
		for (size_t i = 0; i < v->n; i++)
			close(v->folders[i]);
	v->n = 0;
	if (v->upper >= 0)
		close(v->upper);
	v->upper = -1;
	buf_reset(&v->path);
	v->is_valid = false;
}

void layer_view_fini(struct layer_view *v)
{
	buf_fini(&v->path);
	free(v->folders);
}

void unpack_forget(struct unpack *u)
{
	clear_view(u);
	place_fini(&u->last);
	u->has_moved = true;
}

/* At the root all layers show themselves. */
static int begin_view(struct unpack *u, struct error *err)
{
	struct layer_view *v = &u->view;

	clear_view(u);
	if (!v->folders)
		v->folders = calloc(u->n_lower + 1, sizeof(*v->folders));
	if (!v->folders || buf_puts(&v->path, "") < 0)
		return error_nomem(err);
	v->upper = fcntl(u->root, F_DUPFD_CLOEXEC, 0);
	if (v->upper < 0)
		return error_set(err, errno, "open the layer: %s",
				 strerror(errno));
	v->n = u->n_lower;
	v->is_valid = true;
	return 0;
}

/* The folder `name` of one layer below.  *ret -1: there is none; `*ret_ends` then
 * and with an opaque one: nothing of the layers further down is to be seen. */
static int open_shown(int folder, const char *name, int *ret, bool *ret_ends,
		      struct error *err)
{
	AUTO_CLOSE int fd =
		openat(folder, name,
		       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int rc;

	*ret = -1;
	*ret_ends = false;
	if (fd < 0) {
		/* A file, a symlink or a whiteout hides what is below it. */
		*ret_ends = errno == ENOTDIR || errno == ELOOP;
		if (*ret_ends || errno == ENOENT)
			return 0;
		return error_set(err, errno, "open '%s' of a layer below: %s",
				 name, strerror(errno));
	}
	rc = unpack_is_opaque(fd, ret_ends, err);
	if (rc == 0)
		*ret = steal_fd(&fd);
	return rc;
}

/* Go from a folder to `name` in it, with each of the layers that show it. */
static int descend(struct unpack *u, const char *name, struct error *err)
{
	struct layer_view *v = &u->view;
	bool is_root = v->path.len == 0, ends = false;
	const int *from = is_root ? u->lower : v->folders;
	size_t n = v->n;
	int rc = 0;

	if (buf_printf(&v->path, "%s%s", is_root ? "" : "/", name) < 0)
		return error_nomem(err);
	/* overlayfs has no opaque root. */
	if (!is_root && n > 0)
		rc = unpack_is_opaque(v->upper, &ends, err);
	if (rc == 0)
		rc = unpack_spend(u, n, err);
	v->n = 0;
	for (size_t i = 0; i < n; i++) {
		int folder = from[i], fd = -1;

		if (rc == 0 && !ends)
			rc = open_shown(folder, name, &fd, &ends, err);
		if (!is_root)
			close(folder);
		if (fd >= 0)
			v->folders[v->n++] = fd;
	}
	return rc;
}

static int descend_upper(struct layer_view *v, const char *name,
			 struct error *err)
{
	int fd = v->n ? openat(v->upper, name,
			       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
		      : -1;

	if (v->n && fd < 0)
		return error_set(err, errno, "open '%s': %s", name,
				 strerror(errno));
	if (v->upper >= 0)
		close(v->upper);
	v->upper = fd;
	return 0;
}

static bool is_at_or_below(const char *path, const struct buf *folder)
{
	return folder->len == 0 ||
	       (strncmp(path, folder->data, folder->len) == 0 &&
		(path[folder->len] == '/' || path[folder->len] == '\0'));
}

/* Show the folder at `path`; that of before is often the same, or above it. */
static int show(struct unpack *u, const char *path, struct error *err)
{
	AUTO_FREE char *copy = strdup(path);
	struct layer_view *v = &u->view;
	char *at = NULL, *name;
	int rc = 0;

	if (!copy)
		return error_nomem(err);
	if (!v->is_valid || !is_at_or_below(path, &v->path))
		rc = begin_view(u, err);
	name = strtok_r(copy + v->path.len, "/", &at);
	for (; rc == 0 && name; name = strtok_r(NULL, "/", &at)) {
		rc = descend(u, name, err);
		if (rc == 0)
			rc = descend_upper(v, name, err);
	}
	if (rc < 0)
		clear_view(u);
	return rc;
}

int unpack_is_shown(struct unpack *u, const char *path, const char *name,
		    bool *ret, struct error *err)
{
	struct layer_view *v = &u->view;
	bool is_opaque = false;
	struct stat st;
	int rc = show(u, path, err);

	if (rc == 0)
		rc = unpack_spend(u, v->n, err);
	if (rc == 0 && *path && v->n > 0)
		rc = unpack_is_opaque(v->upper, &is_opaque, err);
	if (rc < 0)
		return rc;
	*ret = false;
	for (size_t i = 0; !is_opaque && i < v->n; i++) {
		if (fstatat(*path ? v->folders[i] : u->lower[i], name, &st,
			    AT_SYMLINK_NOFOLLOW) == 0) {
			*ret = !unpack_is_whiteout(&st);
			return 0;
		}
		if (errno != ENOENT)
			return error_set(err, errno,
					 "look for '%s' in a layer below: %s",
					 name, strerror(errno));
	}
	return 0;
}

/* -------------------------------------------------------------- attributes --- */

static int copy_xattr(int from, int to, const char *name, char *value,
		      struct error *err)
{
	ssize_t n;

	if (strncmp(name, OVERLAY_PREFIX, strlen(OVERLAY_PREFIX)) == 0)
		return 0;
	n = fgetxattr(from, name, value, XATTR_LIST_BYTES);
	if (n < 0 && (errno == ENODATA || errno == ENOTSUP))
		return 0;
	if (n < 0 ||
	    (fsetxattr(to, name, value, (size_t)n, 0) < 0 && errno != ENOTSUP))
		return error_set(err, errno,
				 "copy %s of its folder from the layer below: "
				 "%s",
				 name, strerror(errno));
	return 0;
}

static int copy_xattrs(int from, int to, struct error *err)
{
	AUTO_FREE char *names = malloc(2 * XATTR_LIST_BYTES);
	ssize_t n;
	int rc = 0;

	if (!names)
		return error_nomem(err);
	n = flistxattr(from, names, XATTR_LIST_BYTES);
	if (n < 0 && errno != ENOTSUP)
		return error_set(err, errno, "list xattrs: %s",
				 strerror(errno));
	for (const char *at = names; rc == 0 && at < names + n;
	     at += strlen(at) + 1)
		rc = copy_xattr(from, to, at, names + XATTR_LIST_BYTES, err);
	return rc;
}

int unpack_copy_lower(struct unpack *u, const char *path, int fd,
		      struct error *err)
{
	struct stat st;
	int rc, from;

	if (u->n_lower == 0)
		return 0;
	rc = show(u, path, err);
	if (rc < 0 || u->view.n == 0)
		return rc;
	from = *path ? u->view.folders[0] : u->lower[0];
	if (fstat(from, &st) < 0 || fchown(fd, st.st_uid, st.st_gid) < 0 ||
	    fchmod(fd, st.st_mode & 07777) < 0)
		return error_set(err, errno,
				 "copy its folder from the layer below: %s",
				 strerror(errno));
	rc = copy_xattrs(from, fd, err);
	return rc < 0 ? rc : unpack_set_time(fd, &st.st_mtim, err);
}
