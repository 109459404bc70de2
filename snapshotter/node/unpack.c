// SPDX-License-Identifier: Apache-2.0
/*
 * Every path is resolved by openat2(2) within the folder, so that symlinks of
 * the layer mean what they mean in the container and ".." ends at its root.
 * The last part of a path is never followed.
 */
#include "snapshotter/node/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "common/fs.h"

#define OPAQUE_XATTR "trusted.overlay.opaque"
#define OVERLAY_PREFIX \
	"trusted.overlay." /* overlayfs' own: never the layer's */

struct folder {
	char *path; /* in the layer, clean */
	struct timespec mtime;
};

struct unpack {
	struct tar_visitor visitor;
	int root;
	struct folder *folders; /* whose times are set at the end */
	size_t n_folders, cap_folders;
	int file; /* being written; -1 */
	uint64_t file_size;
	struct timespec file_mtime;
};

/* ------------------------------------------------------------------- paths --- */

static int open_in(const struct unpack *u, const char *path, uint64_t flags)
{
	struct open_how how = {
		.flags = flags | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};

	return (int)syscall(SYS_openat2, u->root, *path ? path : ".", &how,
			    sizeof(how));
}

/* A name of the layer without "./", doubled and outer slashes; "" is the root.
 * The caller's. */
static int clean_path(const char *name, char **ret, struct error *err)
{
	char *out = malloc(strlen(name) + 1), *to = out;
	const char *part = name;
	size_t len;

	if (!out)
		return error_nomem(err);
	while (*part) {
		len = strcspn(part, "/");
		if (len == 2 && part[0] == '.' && part[1] == '.') {
			free(out);
			return error_set(err, EINVAL, "the name has '..'");
		}
		if (len > 0 && !(len == 1 && part[0] == '.')) {
			if (to != out)
				*to++ = '/';
			memcpy(to, part, len);
			to += len;
		}
		part += len + (part[len] == '/');
	}
	*to = '\0';
	*ret = out;
	return 0;
}

/* Open the folder `path`, making it and its parents when `make`. */
static int open_folder(const struct unpack *u, char *path, bool make, int *ret,
		       struct error *err)
{
	char *slash;
	int fd, parent, rc;

	fd = open_in(u, path, O_RDONLY | O_DIRECTORY);
	if (fd >= 0) {
		*ret = fd;
		return 0;
	}
	if (errno != ENOENT || !make || !*path)
		return error_set(err, errno, "its folder: %s", strerror(errno));
	slash = strrchr(path, '/');
	if (slash)
		*slash = '\0';
	rc = open_folder(u, slash ? path : path + strlen(path), true, &parent,
			 err);
	if (slash)
		*slash = '/';
	if (rc < 0)
		return rc;
	if (mkdirat(parent, slash ? slash + 1 : path, 0755) < 0)
		rc = error_set(err, errno, "its folder: %s", strerror(errno));
	close(parent);
	return rc < 0 ? rc : open_folder(u, path, false, ret, err);
}

/* A name split into its open folder and its last part (in `path`). */
struct place {
	char *path;
	char *base;
	int folder;
};
#define PLACE_INIT \
	{ \
		.folder = -1 \
	}

static void place_fini(struct place *p)
{
	free(p->path);
	if (p->folder >= 0)
		close(p->folder);
}
#define AUTO_PLACE __attribute__((cleanup(place_fini))) struct place

/* -EISDIR for the root itself. */
static int place_open(const struct unpack *u, const char *name, bool make,
		      struct place *ret, struct error *err)
{
	char *slash;
	int rc;

	rc = clean_path(name, &ret->path, err);
	if (rc < 0)
		return rc;
	slash = strrchr(ret->path, '/');
	ret->base = slash ? slash + 1 : ret->path;
	if (!*ret->base)
		return -EISDIR;
	if (slash)
		*slash = '\0';
	rc = open_folder(u, slash ? ret->path : ret->base + strlen(ret->base),
			 make, &ret->folder, err);
	if (slash)
		*slash = '/';
	return rc;
}

/* A path to the last part for calls that take no descriptor; none of its own
 * parts but the last can be the layer's. */
static char *place_proc(const struct place *p)
{
	char *path;

	return asprintf(&path, "/proc/self/fd/%d/%s", p->folder, p->base) < 0
		       ? NULL
		       : path;
}

/* --------------------------------------------------------------- whiteouts --- */

static int set_opaque(const char *path, struct error *err)
{
	if (setxattr(path, OPAQUE_XATTR, "y", 1, 0) < 0)
		return error_set(err, errno, "set %s: %s", OPAQUE_XATTR,
				 strerror(errno));
	return 0;
}

static int make_whiteout(const struct place *p, const char *hidden,
			 struct error *err)
{
	AUTO_FREE char *path = NULL;
	struct stat st;

	if (!*hidden || strcmp(hidden, ".") == 0 || strcmp(hidden, "..") == 0)
		return error_set(err, EINVAL, "a whiteout of '%s'", hidden);
	if (mknodat(p->folder, hidden, S_IFCHR, makedev(0, 0)) == 0)
		return 0;
	if (errno != EEXIST)
		return error_set(err, errno, "make whiteout: %s",
				 strerror(errno));
	/* It hides what lies below, not what this layer itself has. */
	if (fstatat(p->folder, hidden, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISDIR(st.st_mode))
		return 0;
	if (asprintf(&path, "/proc/self/fd/%d/%s", p->folder, hidden) < 0) {
		path = NULL;
		return error_nomem(err);
	}
	return set_opaque(path, err);
}

static bool is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

/* Make way for an entry.  `*ret_opaque`: a folder that takes this place hides
 * what lies below; `*ret_there`: a folder is there and stays. */
static int clear_place(const struct place *p, bool for_folder, bool *ret_opaque,
		       bool *ret_there, struct error *err)
{
	AUTO_FREE char *path = NULL;
	struct stat st;

	*ret_opaque = *ret_there = false;
	if (fstatat(p->folder, p->base, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0
				       : error_set(err, errno, "stat: %s",
						   strerror(errno));
	*ret_opaque = is_whiteout(&st);
	*ret_there = for_folder && S_ISDIR(st.st_mode);
	if (*ret_there)
		return 0;
	path = place_proc(p);
	return path ? fs_remove_tree(path, err) : error_nomem(err);
}

/* -------------------------------------------------------------- attributes --- */

static int set_xattrs(const char *path, const struct xattr *x,
		      struct error *err)
{
	for (; x; x = x->next) {
		if (strncmp(x->name, OVERLAY_PREFIX, strlen(OVERLAY_PREFIX)) ==
		    0)
			continue;
		if (lsetxattr(path, x->name, x->value, x->size, 0) < 0 &&
		    errno != ENOTSUP)
			return error_set(err, errno, "set %s: %s", x->name,
					 strerror(errno));
	}
	return 0;
}

/* chown(2) takes set-id bits and capabilities away, so it comes first. */
static int set_attributes(int folder, const char *base, const char *path,
			  const struct layer_entry *e, struct error *err)
{
	const struct timespec times[2] = {
		{ .tv_nsec = UTIME_OMIT },
		{ .tv_sec = e->mtime, .tv_nsec = e->mtime_nsec },
	};
	int rc;

	if (fchownat(folder, base, e->uid, e->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return error_set(err, errno, "chown: %s", strerror(errno));
	if (!S_ISLNK(e->mode) && fchmodat(folder, base, e->mode & 07777, 0) < 0)
		return error_set(err, errno, "chmod: %s", strerror(errno));
	rc = set_xattrs(path, e->xattrs, err);
	if (rc == 0 && utimensat(folder, base, times, AT_SYMLINK_NOFOLLOW) < 0)
		rc = error_set(err, errno, "set time: %s", strerror(errno));
	return rc;
}

/* Takes `path`. */
static int remember_folder(struct unpack *u, char *path,
			   const struct layer_entry *e, struct error *err)
{
	struct folder *v;
	size_t cap;

	if (u->n_folders == u->cap_folders) {
		cap = u->cap_folders ? 2 * u->cap_folders : 64;
		if (cap > UNPACK_FOLDERS_MAX) {
			free(path);
			return error_set(err, E2BIG, "over %u folders",
					 UNPACK_FOLDERS_MAX);
		}
		v = realloc(u->folders, cap * sizeof(*v));
		if (!v) {
			free(path);
			return error_nomem(err);
		}
		u->folders = v;
		u->cap_folders = cap;
	}
	u->folders[u->n_folders++] = (struct folder){
		.path = path,
		.mtime = { .tv_sec = e->mtime, .tv_nsec = e->mtime_nsec },
	};
	return 0;
}

/* ----------------------------------------------------------------- entries --- */

static int make_hard_link(const struct unpack *u, const struct place *p,
			  const struct layer_entry *e, struct error *err)
{
	AUTO_PLACE to = PLACE_INIT;
	int rc;

	rc = place_open(u, e->link, false, &to, err);
	if (rc == -EISDIR)
		return error_set(err, EPERM, "a hard link to the root");
	if (rc == 0 && linkat(to.folder, to.base, p->folder, p->base, 0) < 0)
		rc = error_set(err, errno, "hard link to '%s': %s", e->link,
			       strerror(errno));
	return rc;
}

static int make_node(struct unpack *u, const struct place *p,
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

static int add_node(struct unpack *u, struct place *p,
		    const struct layer_entry *e, struct error *err)
{
	AUTO_FREE char *path = place_proc(p);
	bool opaque, there;
	int rc;

	if (!path)
		return error_nomem(err);
	rc = clear_place(p, S_ISDIR(e->mode) && !e->hard, &opaque, &there, err);
	if (rc < 0)
		return rc;
	if (e->hard)
		return make_hard_link(u, p, e, err);
	if (make_node(u, p, e, there) < 0)
		return error_set(err, errno, "create: %s", strerror(errno));
	rc = set_attributes(p->folder, p->base, path, e, err);
	if (rc == 0 && S_ISDIR(e->mode) && opaque)
		rc = set_opaque(path, err);
	if (rc == 0 && S_ISDIR(e->mode))
		rc = remember_folder(u, steal_ptr(&p->path), e, err);
	return rc;
}

static int set_root(struct unpack *u, const struct layer_entry *e,
		    struct error *err)
{
	char *empty = strdup("");

	if (!empty)
		return error_nomem(err);
	if (fchown(u->root, e->uid, e->gid) < 0 ||
	    fchmod(u->root, e->mode & 07777) < 0) {
		free(empty);
		return error_set(err, errno, "root: %s", strerror(errno));
	}
	return remember_folder(u, empty, e, err);
}

static int add_special(const struct place *p, struct error *err)
{
	char path[32];

	if (strcmp(p->base, WHITEOUT_OPAQUE) == 0) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", p->folder);
		return set_opaque(path, err);
	}
	/* Other names of this form are notes of an old file system, aufs. */
	if (strncmp(p->base, ".wh..wh.", 8) == 0)
		return 0;
	return make_whiteout(p, p->base + strlen(WHITEOUT_PREFIX), err);
}

static int on_entry(struct tar_visitor *v, const struct layer_entry *e,
		    bool *want, struct error *err)
{
	struct unpack *u = container_of(v, struct unpack, visitor);
	AUTO_PLACE p = PLACE_INIT;
	int rc;

	*want = false;
	rc = place_open(u, e->path, true, &p, err);
	if (rc == -EISDIR)
		return S_ISDIR(e->mode) ? set_root(u, e, err)
					: error_set(err, EINVAL,
						    "the root is no folder");
	if (rc < 0)
		return rc;
	if (strncmp(p.base, WHITEOUT_PREFIX, strlen(WHITEOUT_PREFIX)) == 0)
		return add_special(&p, err);
	rc = add_node(u, &p, e, err);
	if (rc < 0 || u->file < 0)
		return rc;
	u->file_size = e->size;
	u->file_mtime.tv_sec = e->mtime;
	u->file_mtime.tv_nsec = e->mtime_nsec;
	*want = true;
	return 0;
}

static int on_data(struct tar_visitor *v, uint64_t off, const void *data,
		   size_t len, struct error *err)
{
	struct unpack *u = container_of(v, struct unpack, visitor);
	int rc = fs_pwrite_full(u->file, data, len, off);

	return rc < 0 ? error_set(err, -rc, "write: %s", strerror(-rc)) : 0;
}

static int on_end(struct tar_visitor *v, struct error *err)
{
	struct unpack *u = container_of(v, struct unpack, visitor);
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
					   u->file_mtime };
	AUTO_CLOSE int fd = steal_fd(&u->file);

	if (ftruncate(fd, (off_t)u->file_size) < 0 || futimens(fd, times) < 0)
		return error_set(err, errno, "finish: %s", strerror(errno));
	return 0;
}

/* --------------------------------------------------------------- the whole --- */

int unpack_new(const char *dir, struct unpack **ret, struct error *err)
{
	struct unpack *u = calloc(1, sizeof(*u));

	if (!u)
		return error_nomem(err);
	u->visitor = (struct tar_visitor){
		.entry = on_entry,
		.data = on_data,
		.end = on_end,
	};
	u->file = -1;
	u->root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (u->root < 0) {
		free(u);
		return error_set(err, errno, "open '%s': %s", dir,
				 strerror(errno));
	}
	*ret = u;
	return 0;
}

void unpack_free(struct unpack *u)
{
	size_t i;

	if (!u)
		return;
	for (i = 0; i < u->n_folders; i++)
		free(u->folders[i].path);
	free(u->folders);
	if (u->file >= 0)
		close(u->file);
	close(u->root);
	free(u);
}

struct tar_visitor *unpack_visitor(struct unpack *u)
{
	return &u->visitor;
}

int unpack_finish(struct unpack *u, struct error *err)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT } };
	size_t i;
	int fd;

	for (i = 0; i < u->n_folders; i++) {
		fd = open_in(u, u->folders[i].path,
			     O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
		if (fd < 0)
			continue; /* a later entry took its place */
		times[1] = u->folders[i].mtime;
		(void)futimens(fd, times);
		close(fd);
	}
	if (syncfs(u->root) < 0)
		return error_set(err, errno, "sync: %s", strerror(errno));
	return 0;
}
