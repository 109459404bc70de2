// SPDX-License-Identifier: Apache-2.0
/*
 * A path is walked part by part from the layer's root, and every symlink on the
 * way is read here, so that symlinks mean what they mean in the container and
 * ".." ends at its root.  A symlink in the last part of a name is never followed.
 */
#include "snapshotter/node/layers/unpack_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define FOLDER_STEPS 16 /* cost of making a folder, in steps */

int unpack_spend(struct unpack *u, uint64_t steps, struct error *err)
{
	if (pace_level(u->pace) == PACE_STOP)
		return error_set(err, ECANCELED,
				 "nobody waits for it any more");
	u->steps += steps;
	if (u->steps > u->steps_max)
		return error_set(err, E2BIG,
				 "the names of the layer lead through over "
				 "%llu folders in all, more than any tree "
				 "needs: make its paths and symlinks shorter, "
				 "or several layers of it",
				 (unsigned long long)u->steps_max);
	return 0;
}

/* ------------------------------------------------------------------ the layers below --- */

/*
 * overlayfs shows owner, mode, time and xattrs of a folder from the topmost layer that has it.
 * If a layer has a file but no entry for the file's folder, the folder has to keep what the
 * layers below say (containerd's apply copies it too).  It is looked up as overlayfs does, part
 * by part from the root; a folder in it has no symlinks on its path.
 */

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

/* Begin at the root, which every layer below has. */
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
		return error_errno(err, errno, "open the layer");
	v->n = u->n_lower;
	v->is_valid = true;
	return 0;
}

/* Open the folder `name` of one lower layer.  *ret -1: there is none.  `*ret_ends`: the layers
 * further down are hidden here, by an opaque folder or a file. */
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
		return error_errno(err, errno, "open '%s' of a layer below",
				   name);
	}
	rc = unpack_is_opaque(fd, ret_ends, err);
	if (rc == 0)
		*ret = steal_fd(&fd);
	return rc;
}

/* Go from a folder to `name` in it, with each of the layers that show it. */
static int descend_path(struct unpack *u, const char *name, struct error *err)
{
	struct layer_view *v = &u->view;
	bool is_root = v->path.len == 0, ends = false;
	const int *from = is_root ? u->lower : v->folders;
	size_t n = v->n;
	int rc = 0;

	if (buf_printf(&v->path, "%s%s", is_root ? "" : "/", name) < 0)
		return error_nomem(err);
	/* overlayfs ignores an opaque mark on the root. */
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
		return error_errno(err, errno, "open '%s'", name);
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

/* Look at the folder at `path` in the layers below; keeps the current view if it is of the same
 * folder or of one above. */
static int descend_view_to(struct unpack *u, const char *path,
			   struct error *err)
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
		rc = descend_path(u, name, err);
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
	int rc = descend_view_to(u, path, err);

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
			return error_errno(err, errno,
					   "look for '%s' in a layer below",
					   name);
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
		return error_errno(err, errno, "list xattrs");
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
	rc = descend_view_to(u, path, err);
	if (rc < 0 || u->view.n == 0)
		return rc;
	from = *path ? u->view.folders[0] : u->lower[0];
	if (fstat(from, &st) < 0 || fchown(fd, st.st_uid, st.st_gid) < 0 ||
	    fchmod(fd, st.st_mode & 07777) < 0)
		return error_errno(err, errno,
				   "copy its folder from the layer below");
	rc = copy_xattrs(from, fd, err);
	return rc < 0 ? rc : unpack_set_time(fd, &st.st_mtim, err);
}

/* Cut off the next part of the path at `*at`; NULL at the end. */
static char *next_part(char **at)
{
	char *part = *at + strspn(*at, "/");
	size_t len = strcspn(part, "/");

	*at = part + len + (part[len] == '/');
	part[len] = '\0';
	return len ? part : NULL;
}

/* The length of the path without its last part. */
static size_t parent_path_len(const char *path, size_t len)
{
	while (len > 0 && path[len - 1] != '/')
		len--;
	return len > 0 ? len - 1 : 0;
}

/* Clean a layer's name as Go's path.Clean(): no ".", "..", doubled or outer slashes; "" is the
 * root.  The caller frees it. */
static int clean_name(const char *name, char **ret, struct error *err)
{
	AUTO_FREE char *copy = strdup(name);
	AUTO_FREE char *out = malloc(strlen(name) + 1);
	char *at = copy, *part;
	size_t n = 0;

	if (!copy || !out)
		return error_nomem(err);
	while ((part = next_part(&at))) {
		if (strcmp(part, ".") == 0)
			continue;
		if (strcmp(part, "..") == 0 && n == 0 && name[0] != '/')
			return error_set(err, EINVAL,
					 "its name leads out of the root");
		if (strcmp(part, "..") == 0) {
			n = parent_path_len(out, n);
			continue;
		}
		if (n > 0)
			out[n++] = '/';
		memcpy(out + n, part, strlen(part));
		n += strlen(part);
	}
	out[n] = '\0';
	if (n > APPLY_PATH_MAX)
		return error_set(err, ENAMETOOLONG,
				 "its name is longer than %d bytes",
				 APPLY_PATH_MAX);
	*ret = steal_ptr(&out);
	return 0;
}

/* ------------------------------------------------------ --- walking a path --- */

/* A walk along a path to a folder. */
struct path_way {
	struct unpack *u;
	const struct layer_entry *implied_by;
	struct unpack_place *at;
	struct buf todo; /* the path's remaining parts, from `rest` on */
	char *rest;
	unsigned int n_links;
};

static int set_folder_error(int why, struct error *err)
{
	return error_errno(err, why, "its folder");
}

/* Remove a whiteout of this layer in whose place a folder is made. */
static int take_whiteout(int folder, const char *name, bool *ret,
			 struct error *err)
{
	struct stat st;

	*ret = false;
	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : set_folder_error(errno, err);
	if (!unpack_is_whiteout(&st))
		return set_folder_error(ENOTDIR, err);
	if (unlinkat(folder, name, 0) < 0)
		return error_errno(err, errno, "remove a whiteout");
	*ret = true;
	return 0;
}

/* Set the attributes of a folder that has no entry so far: those of the layers below, if they
 * have it; else containerd's defaults, with the entry's time. */
static int set_folder_attributes(struct path_way *w, const char *name, int fd,
				 bool is_new, struct error *err)
{
	const struct layer_entry plain = {
		.mode = S_IFDIR | 0755,
		.mtime = w->implied_by->mtime,
		.mtime_nsec = w->implied_by->mtime_nsec,
	};
	AUTO_BUF path = BUF_INIT;
	int rc = unpack_set_attributes(fd, &plain, err);

	if (rc < 0)
		return rc;
	if (is_new)
		return unpack_set_opaque(w->u, fd, err);
	if (buf_printf(&path, "%s%s%s", w->at->path.data,
		       w->at->path.len ? "/" : "", name) < 0)
		return error_nomem(err);
	return unpack_copy_lower(w->u, path.data, fd, err);
}

static int imply_folder(struct path_way *w, const char *name, int *ret,
			struct error *err)
{
	int folder = w->at->folder, rc;
	AUTO_CLOSE int fd = -1;
	struct timespec mtime;
	bool is_new;

	rc = unpack_spend(w->u, FOLDER_STEPS, err);
	if (rc == 0)
		rc = unpack_get_time(folder, &mtime, err);
	if (rc == 0)
		rc = take_whiteout(folder, name, &is_new, err);
	if (rc < 0)
		return rc;
	if (mkdirat(folder, name, 0700) == 0)
		fd = openat(folder, name,
			    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return set_folder_error(errno, err);
	rc = set_folder_attributes(w, name, fd, is_new, err);
	if (rc == 0)
		rc = unpack_set_time(folder, &mtime, err);
	if (rc == 0)
		*ret = steal_fd(&fd);
	return rc;
}

/* Follow a symlink: put its target before the remaining parts of the path. */
static int follow_symlink(struct path_way *w, const char *name,
			  struct error *err)
{
	struct buf todo = BUF_INIT;
	char target[PATH_MAX];
	ssize_t n = readlinkat(w->at->folder, name, target, sizeof(target));
	int rc;

	if (n < 0 || n == (ssize_t)sizeof(target))
		return error_set(err, n < 0 ? errno : ENAMETOOLONG,
				 "read symlink '%s' on its way", name);
	if (++w->n_links > APPLY_LINKS_MAX)
		return error_set(err, ELOOP, "more than %d symlinks on its way",
				 APPLY_LINKS_MAX);
	if (strlen(w->rest) + (size_t)n > UINT16_MAX)
		return error_set(err, ENAMETOOLONG,
				 "symlinks make a path longer than %d bytes",
				 UINT16_MAX);
	rc = unpack_spend(w->u, (strlen(w->rest) + (size_t)n) / 64, err);
	if (rc < 0)
		return rc;
	if (buf_append(&todo, target, (size_t)n) < 0 ||
	    buf_printf(&todo, "/%s", w->rest) < 0) {
		buf_fini(&todo);
		return error_nomem(err);
	}
	buf_fini(&w->todo);
	w->todo = todo;
	w->rest = todo.data;
	return 0;
}

/* Make `fd` (taken) the current folder of the walk. */
static void enter_child_folder(struct path_way *w, int fd)
{
	close(w->at->folder);
	w->at->folder = fd;
}

static int go_to_root(struct path_way *w, struct error *err)
{
	int fd = fcntl(w->u->root, F_DUPFD_CLOEXEC, 0);

	if (fd < 0)
		return set_folder_error(errno, err);
	if (w->at->folder >= 0)
		close(w->at->folder);
	w->at->folder = fd;
	buf_reset(&w->at->path);
	return buf_puts(&w->at->path, "") < 0 ? error_nomem(err) : 0;
}

/* Go to the parent folder, but never above the root. */
static int enter_parent_folder(struct path_way *w, struct error *err)
{
	struct buf *path = &w->at->path;
	int fd;

	if (path->len == 0)
		return 0;
	fd = openat(w->at->folder, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return set_folder_error(errno, err);
	path->len = parent_path_len(path->data, path->len);
	path->data[path->len] = '\0';
	enter_child_folder(w, fd);
	return 0;
}

/* Enter the folder `part`, or follow it if it is a symlink. */
static int walk_next_part(struct path_way *w, const char *part,
			  struct error *err)
{
	int fd = openat(w->at->folder, part,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	int rc;

	if (fd < 0 && errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
		return set_folder_error(errno, err);
	if (fd < 0 && errno != ENOENT) {
		if (fstatat(w->at->folder, part, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return set_folder_error(errno, err);
		if (S_ISLNK(st.st_mode)) {
			rc = follow_symlink(w, part, err);
			return rc == 0 && *w->rest == '/' ? go_to_root(w, err)
							  : rc;
		}
		/* A whiteout of this layer may be replaced by a new folder. */
		if (!w->implied_by || !unpack_is_whiteout(&st))
			return set_folder_error(ENOTDIR, err);
	}
	if (fd < 0 && !w->implied_by)
		return set_folder_error(ENOENT, err);
	rc = fd < 0 ? imply_folder(w, part, &fd, err) : 0;
	if (rc < 0)
		return rc;
	enter_child_folder(w, fd);
	return buf_printf(&w->at->path, "%s%s", w->at->path.len ? "/" : "",
			  part) < 0
		       ? error_nomem(err)
		       : 0;
}

/* --------------------------------------------------- --- places of entries --- */

/* Find the place of `name`, which has `len` bytes.  The caller frees `ret`, also after a
 * failure. */
static int walk_path(struct unpack *u, const char *name, size_t len,
		     const struct layer_entry *implied_by,
		     struct unpack_place *ret, struct error *err)
{
	struct path_way w = {
		.u = u, .implied_by = implied_by, .at = ret, .todo = BUF_INIT
	};
	char *part;
	int rc = go_to_root(&w, err);

	if (rc == 0 &&
	    (buf_append(&w.todo, name, len) < 0 || buf_puts(&w.todo, "") < 0))
		rc = error_nomem(err);
	w.rest = w.todo.data;
	while (rc == 0 && (part = next_part(&w.rest))) {
		rc = unpack_spend(u, 1, err);
		if (rc < 0 || strcmp(part, ".") == 0)
			continue;
		rc = strcmp(part, "..") == 0 ? enter_parent_folder(&w, err)
					     : walk_next_part(&w, part, err);
	}
	buf_fini(&w.todo);
	return rc;
}

/* Take the place of the last entry if this one is in the same folder, as most are. */
static bool reuse_last_place(struct unpack *u, const struct unpack_place *p,
			     size_t len, struct unpack_place *ret)
{
	const struct unpack_place *last = &u->last;

	if (last->folder < 0 || (size_t)(last->base - last->name) != len ||
	    memcmp(last->name, p->name, len) != 0)
		return false;
	buf_fini(&ret->path);
	ret->path = last->path;
	ret->folder = last->folder;
	u->last.path = (struct buf)BUF_INIT;
	u->last.folder = -1;
	return true;
}

int place_open(struct unpack *u, const char *name,
	       const struct layer_entry *implied_by, struct unpack_place *ret,
	       struct error *err)
{
	const char *slash;
	size_t len;
	int rc = clean_name(name, &ret->name, err);

	if (rc < 0)
		return rc;
	slash = strrchr(ret->name, '/');
	ret->base = slash ? slash + 1 : ret->name;
	if (!*ret->base)
		return -EISDIR;
	len = (size_t)(ret->base - ret->name);
	if (implied_by && reuse_last_place(u, ret, len, ret))
		return unpack_spend(u, 1, err);
	return walk_path(u, ret->name, len, implied_by, ret, err);
}

void place_fini(struct unpack_place *p)
{
	free(p->name);
	buf_fini(&p->path);
	if (p->folder >= 0)
		close(p->folder);
	*p = (struct unpack_place)PLACE_INIT;
}
