// SPDX-License-Identifier: Apache-2.0
/* Unpacks the entries of a layer; unpack_path.c finds the paths. */
#include "snapshotter/node/layers/unpack_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "common/fs.h"

/* A path to the entry, for system calls that take no descriptor.  Only its last part comes from
 * the layer. */
static char *place_proc(const struct unpack_place *p)
{
	char *path;

	return asprintf(&path, "/proc/self/fd/%d/%s", p->folder, p->base) < 0
		       ? NULL
		       : path;
}

/* --------------------------------------------------------------- whiteouts --- */

/* Mark the folder opaque, and remove whiteouts below it: they hide nothing any more, but
 * overlayfs would list them. */
static int hide_below(struct unpack *u, int folder, bool is_root,
		      struct error *err)
{
	int rc = unpack_set_opaque(u, folder, err);

	/* overlayfs ignores an opaque mark on the root, so whiteouts stay there. */
	return rc == 0 && u->has_whiteouts && !is_root
		       ? unpack_drop_whiteouts(u, folder, err)
		       : rc;
}

static int make_whiteout(struct unpack *u, const struct unpack_place *p,
			 const char *hidden, struct error *err)
{
	AUTO_CLOSE int fd = -1;
	bool is_shown = true;
	int rc = 0;

	if (!*hidden || strcmp(hidden, ".") == 0 || strcmp(hidden, "..") == 0)
		return error_set(err, EINVAL, "a whiteout of '%s'", hidden);
	/* Make no whiteout of a name that no lower layer shows: overlayfs would list it if no
	 * other layer has the folder. */
	if (u->knows_lower)
		rc = unpack_is_shown(u, p->path.data, hidden, &is_shown, err);
	if (rc < 0 || !is_shown)
		return rc;
	if (mknodat(p->folder, hidden, S_IFCHR, makedev(0, 0)) == 0) {
		u->has_whiteouts = true;
		return 0;
	}
	if (errno != EEXIST)
		return error_errno(err, errno, "make whiteout");
	/* A whiteout hides lower layers, not this layer's own entry. */
	fd = openat(p->folder, hidden,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
		return 0;
	return fd < 0 ? error_errno(err, errno, "open '%s'", hidden)
		      : hide_below(u, fd, false, err);
}

/* Remove what is in the entry's place.  `*ret_opaque`: a new folder here has to hide the lower
 * layers, as the removed one did; `*ret_there`: a folder is there and stays. */
static int clear_place(struct unpack *u, const struct unpack_place *p,
		       bool for_folder, bool *ret_opaque, bool *ret_there,
		       struct error *err)
{
	AUTO_FREE char *path = NULL;
	struct stat st;

	*ret_opaque = *ret_there = false;
	if (fstatat(p->folder, p->base, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : error_errno(err, errno, "stat");
	*ret_opaque = !S_ISDIR(st.st_mode);
	*ret_there = for_folder && S_ISDIR(st.st_mode);
	if (*ret_there)
		return 0;
	if (S_ISDIR(st.st_mode) || S_ISLNK(st.st_mode))
		unpack_forget(u);
	path = place_proc(p);
	return path ? fs_remove_tree(path, err) : error_nomem(err);
}

/* ----------------------------------------------------------------- entries --- */

static int make_hard_link(struct unpack *u, const struct unpack_place *p,
			  const struct layer_entry *e, struct error *err)
{
	AUTO_PLACE to = PLACE_INIT;
	int rc = place_open(u, e->link, NULL, &to, err);

	if (rc == -EISDIR)
		return error_set(err, EPERM, "a hard link to the root");
	if (rc == 0 && linkat(to.folder, to.base, p->folder, p->base, 0) < 0)
		rc = error_errno(err, errno, "hard link to '%s'", e->link);
	return rc;
}

static int make_node(struct unpack *u, const struct unpack_place *p,
		     const struct layer_entry *e, bool there)
{
	switch (e->mode & S_IFMT) {
	case S_IFDIR:
		return there ? 0 : mkdirat(p->folder, p->base, 0700);
	case S_IFLNK:
		return symlinkat(e->link, p->folder, p->base);
	case S_IFREG:
		u->file = openat(p->folder, p->base,
				 O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW |
					 O_CLOEXEC,
				 0600);
		return u->file < 0 ? -1 : 0;
	default:
		return mknodat(p->folder, p->base, e->mode & S_IFMT,
			       makedev(e->major, e->minor));
	}
}

static int finish_node(struct unpack *u, const struct unpack_place *p,
		       const struct layer_entry *e, bool opaque,
		       struct error *err)
{
	bool is_folder = S_ISDIR(e->mode) && !e->hard;
	AUTO_CLOSE int fd =
		openat(p->folder, p->base,
		       O_NOFOLLOW | O_CLOEXEC |
			       (is_folder ? O_RDONLY | O_DIRECTORY : O_PATH));
	int rc;

	if (fd < 0)
		return error_errno(err, errno, "open");
	rc = unpack_set_attributes(fd, e, err);
	if (rc == 0 && is_folder && opaque)
		rc = unpack_set_opaque(u, fd, err);
	return rc;
}

static int add_node(struct unpack *u, const struct unpack_place *p,
		    const struct layer_entry *e, struct error *err)
{
	bool opaque, there;
	int rc = clear_place(u, p, S_ISDIR(e->mode) && !e->hard, &opaque,
			     &there, err);

	if (rc < 0)
		return rc;
	if (e->hard) {
		rc = make_hard_link(u, p, e, err);
		return rc < 0 ? rc : finish_node(u, p, e, false, err);
	}
	if (make_node(u, p, e, there) < 0)
		return error_errno(err, errno, "create");
	/* Writing data removes capabilities and changes the time, so on_end() sets the
	 * attributes. */
	if (u->file >= 0) {
		u->entry = e;
		return 0;
	}
	return finish_node(u, p, e, opaque, err);
}

static int add_special(struct unpack *u, const struct unpack_place *p,
		       struct error *err)
{
	if (strcmp(p->base, WHITEOUT_OPAQUE) == 0)
		return hide_below(u, p->folder, p->path.len == 0, err);
	/* Other names that begin with .wh..wh. are private files of an old file system, aufs. */
	if (strncmp(p->base, ".wh..wh.", 8) == 0)
		return 0;
	return make_whiteout(u, p, p->base + strlen(WHITEOUT_PREFIX), err);
}

static int add_entry(struct unpack *u, const struct unpack_place *p,
		     const struct layer_entry *e, struct error *err)
{
	struct timespec mtime;
	int rc = unpack_get_time(p->folder, &mtime, err);

	if (rc == 0)
		rc = strncmp(p->base, WHITEOUT_PREFIX,
			     strlen(WHITEOUT_PREFIX)) == 0
			     ? add_special(u, p, err)
			     : add_node(u, p, e, err);
	return rc < 0 ? rc : unpack_set_time(p->folder, &mtime, err);
}

static int on_entry(struct tar_visitor *v, const struct layer_entry *e,
		    bool *want, struct error *err)
{
	struct unpack *u = container_of(v, struct unpack, visitor);
	AUTO_PLACE p = PLACE_INIT;
	int rc;

	*want = u->has_moved = false;
	rc = place_open(u, e->path, e, &p, err);
	if (rc == -EISDIR && !S_ISDIR(e->mode))
		return error_set(err, EINVAL, "the root is no folder");
	if (rc == -EISDIR)
		return u->keeps_root ? 0
				     : unpack_set_attributes(u->root, e, err);
	if (rc == 0)
		rc = add_entry(u, &p, e, err);
	if (rc < 0)
		return rc;
	*want = u->file >= 0;
	/* Remember the entry's place for the next one, unless the entry removed something on
	 * that path. */
	if (!u->has_moved) {
		place_fini(&u->last);
		u->last = p;
		p = (struct unpack_place)PLACE_INIT;
	}
	return 0;
}

static int on_data(struct tar_visitor *v, uint64_t off, const void *data,
		   size_t len, struct error *err)
{
	struct unpack *u = container_of(v, struct unpack, visitor);
	int rc = unpack_spend(u, 0, err);

	if (rc < 0)
		return rc;
	rc = fs_pwrite_full(u->file, data, len, off);
	return rc < 0 ? error_errno(err, -rc, "write") : 0;
}

static int on_end(struct tar_visitor *v, struct error *err)
{
	struct unpack *u = container_of(v, struct unpack, visitor);
	const struct layer_entry *e = u->entry;
	AUTO_CLOSE int fd = steal_fd(&u->file);

	u->entry = NULL;
	if (ftruncate(fd, (off_t)e->size) < 0)
		return error_errno(err, errno, "set its size");
	return unpack_set_attributes(fd, e, err);
}

/* ----------------------------------------------------- --- the whole layer --- */

static int open_lower(struct unpack *u, const char *const *lower,
		      size_t n_lower, struct error *err)
{
	if (n_lower > UNPACK_LOWER_MAX)
		return error_set(err, E2BIG,
				 "%zu layers below; %u are the most", n_lower,
				 UNPACK_LOWER_MAX);
	u->lower = calloc(n_lower + 1, sizeof(*u->lower));
	if (!u->lower)
		return error_nomem(err);
	for (; u->n_lower < n_lower; u->n_lower++) {
		int fd = open(lower[u->n_lower],
			      O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (fd < 0)
			return error_errno(err, errno, "open '%s'",
					   lower[u->n_lower]);
		u->lower[u->n_lower] = fd;
	}
	return 0;
}

int unpack_new(const char *dir, const struct unpack_options *options,
	       struct unpack **ret, struct error *err)
{
	AUTO(unpack) u = calloc(1, sizeof(*u));
	int rc;

	if (!u)
		return error_nomem(err);
	u->visitor = (struct tar_visitor){
		.entry = on_entry,
		.data = on_data,
		.end = on_end,
	};
	u->pace = options->pace;
	u->steps_max =
		options->steps_max ? options->steps_max : UNPACK_STEPS_MAX;
	u->knows_lower = options->lower != NULL;
	u->keeps_root = options->keeps_root;
	u->last = (struct unpack_place)PLACE_INIT;
	u->view.upper = -1;
	u->file = -1;
	u->root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (u->root < 0)
		return error_errno(err, errno, "open '%s'", dir);
	rc = open_lower(u, options->lower, options->n_lower, err);
	/* Every layer contains the root, even without an entry for it. */
	if (rc == 0 && !u->keeps_root)
		rc = unpack_copy_lower(u, "", u->root, err);
	if (rc < 0)
		return rc;
	*ret = steal_ptr(&u);
	return 0;
}

void unpack_free(struct unpack *u)
{
	if (!u)
		return;
	unpack_forget(u);
	layer_view_fini(&u->view);
	for (size_t i = 0; i < u->n_lower; i++)
		close(u->lower[i]);
	free(u->lower);
	if (u->file >= 0)
		close(u->file);
	if (u->root >= 0)
		close(u->root);
	free(u);
}

struct tar_visitor *unpack_visitor(struct unpack *u)
{
	return &u->visitor;
}

int unpack_finish(struct unpack *u, struct error *err)
{
	int rc = unpack_spend(u, 0, err);

	if (rc < 0)
		return rc;
	if (syncfs(u->root) < 0)
		return error_errno(err, errno, "sync");
	return 0;
}
