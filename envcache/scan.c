// SPDX-License-Identifier: Apache-2.0
/*
 * A walk over the targets.  What stat(2) tells is what changes are found by: whatever
 * changes a file sets its ctime, which nobody can set back.  Only a file that was
 * changed just before the walk may be changed again within the same tick of the clock;
 * its content is hashed.
 */
#include "envcache/scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "common/array.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/text.h"

/* Clocks of file servers differ, and some file systems keep times by 2 s. */
#define RECENT_NS (3 * NS_PER_S)
#define HASH_PIECE (256u << 10)

struct scan_walk {
	struct env_scan *scan;
	struct buf path;
	dev_t dev; /* of the target */
	unsigned int depth;
};

int env_path_compare(const char *a, const char *b)
{
	const unsigned char *x = (const unsigned char *)a;
	const unsigned char *y = (const unsigned char *)b;

	while (*x && *x == *y) {
		x++;
		y++;
	}
	if (*x == *y)
		return 0;
	/* The end of a path, then a slash, then all other bytes. */
	if (!*x || !*y)
		return *x ? 1 : -1;
	if (*x == '/' || *y == '/')
		return *x == '/' ? -1 : 1;
	return *x < *y ? -1 : 1;
}

void env_scan_free(struct env_scan *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++) {
		free(s->entries[i].path);
		free(s->entries[i].link);
	}
	while (s->n_mounts)
		free(s->mounts[--s->n_mounts]);
	free((void *)s->mounts);
	free(s->entries);
	free(s);
}

static int64_t stat_ns(const struct timespec *t)
{
	return (int64_t)t->tv_sec * NS_PER_S + t->tv_nsec;
}

static void take_stat(struct env_entry *e, const struct stat *st)
{
	e->mode = st->st_mode;
	e->uid = st->st_uid;
	e->gid = st->st_gid;
	e->nlink = (uint32_t)st->st_nlink;
	e->size = S_ISDIR(st->st_mode) ? 0 : (uint64_t)st->st_size;
	e->ino = st->st_ino;
	e->dev = st->st_dev;
	e->rdev = st->st_rdev;
	e->mtime_ns = stat_ns(&st->st_mtim);
	e->ctime_ns = stat_ns(&st->st_ctim);
}

static int add(struct env_scan *s, const char *path, const struct stat *st,
	       char *link, struct error *err)
{
	struct env_entry *e;

	if (s->n == ENV_ENTRIES_MAX)
		return error_set(err, E2BIG,
				 "the targets hold more than %u names",
				 ENV_ENTRIES_MAX);
	if (s->n == s->cap) {
		size_t cap = s->cap * 2;
		struct env_entry *v =
			realloc(s->entries, cap * sizeof(*s->entries));

		if (!v)
			return error_nomem(err);
		s->entries = v;
		s->cap = cap;
	}
	e = &s->entries[s->n];
	*e = (struct env_entry){ .path = strdup(path) };
	if (!e->path)
		return error_nomem(err);
	take_stat(e, st);
	e->link = link;
	s->n++;
	return 0;
}

static int read_link(int dir, const char *name, const struct stat *st,
		     char **ret, struct error *err)
{
	size_t room = (size_t)st->st_size + 2;
	AUTO_FREE char *text = malloc(room);
	ssize_t n;

	if (!text)
		return error_nomem(err);
	n = readlinkat(dir, name, text, room);
	if (n < 0)
		return error_set(err, errno, "read link '%.200s': %s", name,
				 strerror(errno));
	if ((size_t)n >= room - 1)
		return error_set(err, EBUSY, "link '%.200s' changes", name);
	text[n] = '\0';
	*ret = steal_ptr(&text);
	return 0;
}

static int walk_folder(struct scan_walk *w, int dir, struct error *err);

/* A folder that is still the one that was looked at. */
static int enter(struct scan_walk *w, int dir, const char *name,
		 struct error *err)
{
	AUTO_CLOSE int fd =
		openat(dir, name,
		       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int rc;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
		return 0; /* it went while we looked; the next look sees that */
	if (fd < 0)
		return error_set(err, errno, "open '%.300s': %s", w->path.data,
				 strerror(errno));
	if (++w->depth > ENV_DEPTH_MAX)
		return error_set(err, ELOOP,
				 "'%.300s' lies in more than %u folders",
				 w->path.data, ENV_DEPTH_MAX);
	rc = walk_folder(w, fd, err);
	w->depth--;
	return rc;
}

static struct timespec time_of(const struct statx_timestamp *t)
{
	return (struct timespec){ .tv_sec = t->tv_sec, .tv_nsec = t->tv_nsec };
}

/* As fstatat(2), and whether something is mounted there. */
static int stat_name(int dir, const char *name, struct stat *ret,
		     bool *ret_is_mount)
{
	struct statx x;

	if (statx(dir, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
		  STATX_BASIC_STATS, &x) < 0)
		return -errno;
	*ret = (struct stat){
		.st_mode = x.stx_mode,
		.st_uid = x.stx_uid,
		.st_gid = x.stx_gid,
		.st_nlink = x.stx_nlink,
		.st_size = (off_t)x.stx_size,
		.st_ino = x.stx_ino,
		.st_dev = makedev(x.stx_dev_major, x.stx_dev_minor),
		.st_rdev = makedev(x.stx_rdev_major, x.stx_rdev_minor),
		.st_mtim = time_of(&x.stx_mtime),
		.st_ctim = time_of(&x.stx_ctime),
	};
	*ret_is_mount = x.stx_attributes & STATX_ATTR_MOUNT_ROOT;
	return 0;
}

static int note_mount(struct env_scan *s, const char *path, struct error *err)
{
	if (array_grow(&s->mounts, s->n_mounts, &s->cap_mounts, 16) < 0)
		return error_nomem(err);
	s->mounts[s->n_mounts] = strdup(path);
	return s->mounts[s->n_mounts] ? (s->n_mounts++, 0) : error_nomem(err);
}

bool env_scan_is_covered(const struct env_scan *s, const char *path)
{
	for (size_t i = 0; i < s->n_mounts; i++)
		if (text_path_holds(s->mounts[i], path))
			return true;
	return false;
}

static int look(struct scan_walk *w, int dir, const char *name,
		struct error *err)
{
	AUTO_FREE char *link = NULL;
	bool is_mount = false;
	struct stat st = { .st_mode = 0 };
	int rc = stat_name(dir, name, &st, &is_mount);

	if (rc < 0)
		return rc == -ENOENT ? 0
				     : error_set(err, -rc, "'%.300s': %s",
						 w->path.data, strerror(-rc));
	/* Another volume of the same file system counts as one that is mounted. */
	if (is_mount || (S_ISDIR(st.st_mode) && st.st_dev != w->dev))
		return note_mount(w->scan, w->path.data, err);
	if (S_ISSOCK(st.st_mode))
		return 0; /* it is of a process */
	if (S_ISLNK(st.st_mode))
		rc = read_link(dir, name, &st, &link, err);
	if (rc == 0)
		rc = add(w->scan, w->path.data, &st, link, err);
	if (rc < 0)
		return rc;
	link = NULL;
	return S_ISDIR(st.st_mode) ? enter(w, dir, name, err) : 0;
}

static int is_listed(const struct dirent *d)
{
	return strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0 &&
	       strncmp(d->d_name, ENV_STAGING, strlen(ENV_STAGING)) != 0;
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int walk_folder(struct scan_walk *w, int dir, struct error *err)
{
	struct dirent **names = NULL;
	size_t len = w->path.len;
	int rc = 0, n = scandirat(dir, ".", &names, is_listed, compare_names);

	if (n < 0)
		return error_set(err, errno, "list '%.300s': %s", w->path.data,
				 strerror(errno));
	for (int i = 0; i < n; i++) {
		if (rc == 0 &&
		    buf_printf(&w->path, "/%s", names[i]->d_name) < 0)
			rc = error_nomem(err);
		if (rc == 0)
			rc = look(w, dir, names[i]->d_name, err);
		w->path.len = len;
		w->path.data[len] = '\0';
		free(names[i]);
	}
	free((void *)names);
	return rc;
}

static int walk_target(struct scan_walk *w, const char *target,
		       struct error *err)
{
	AUTO_CLOSE int fd = fs_openat2(AT_FDCWD, target, O_RDONLY | O_DIRECTORY,
				       RESOLVE_NO_SYMLINKS);
	struct stat st;
	int rc;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(err, errno, "open '%.300s': %s", target,
				 strerror(errno));
	w->dev = st.st_dev;
	w->depth = 0;
	buf_reset(&w->path);
	if (buf_puts(&w->path, target) < 0)
		return error_nomem(err);
	rc = add(w->scan, target, &st, NULL, err);
	return rc < 0 ? rc : walk_folder(w, fd, err);
}

int env_scan_new(const struct env_targets *t, struct env_scan **ret,
		 struct error *err)
{
	AUTO(env_scan) s = calloc(1, sizeof(*s));
	struct scan_walk w = { .scan = s, .path = BUF_INIT };
	int rc = s ? 0 : error_nomem(err);

	/* The list is there also when nothing is on it. */
	if (rc == 0) {
		s->cap = 1024;
		s->entries = calloc(s->cap, sizeof(*s->entries));
		rc = s->entries ? 0 : error_nomem(err);
	}
	for (size_t i = 0; rc == 0 && i < t->n; i++)
		rc = walk_target(&w, t->paths[i], err);
	buf_fini(&w.path);
	if (rc == 0)
		*ret = steal_ptr(&s);
	return rc;
}

/* ------------------------------------------------------------------- entries --- */

bool env_entry_is_same(const struct env_entry *a, const struct env_entry *b)
{
	return a->mode == b->mode && a->uid == b->uid && a->gid == b->gid &&
	       a->nlink == b->nlink && a->size == b->size && a->ino == b->ino &&
	       a->dev == b->dev && a->rdev == b->rdev &&
	       a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns;
}

bool env_entry_is_still(const struct env_entry *e, int fd)
{
	struct env_entry now = { .path = NULL };
	struct stat st;

	if (fstat(fd, &st) < 0)
		return false;
	take_stat(&now, &st);
	return env_entry_is_same(e, &now);
}

int env_entry_open(const struct env_entry *e, int *ret_fd, struct error *err)
{
	AUTO_CLOSE int fd = fs_openat2(AT_FDCWD, e->path,
				       S_ISREG(e->mode) ? O_RDONLY | O_NONBLOCK
							: O_PATH | O_NOFOLLOW,
				       RESOLVE_NO_SYMLINKS);

	if (fd < 0 && (errno == ENOENT || errno == ELOOP || errno == ENOTDIR))
		return error_set(err, ESTALE, "'%.300s' changes", e->path);
	if (fd < 0)
		return error_set(err, errno, "open '%.300s': %s", e->path,
				 strerror(errno));
	if (!env_entry_is_still(e, fd))
		return error_set(err, ESTALE, "'%.300s' changes", e->path);
	*ret_fd = steal_fd(&fd);
	return 0;
}

static int hash_fd(int fd, struct digest *ret)
{
	AUTO_FREE char *piece = malloc(HASH_PIECE);
	AUTO(hasher) h = hasher_new();
	int rc = h && piece ? 0 : -ENOMEM;

	while (rc == 0) {
		ssize_t n = read(fd, piece, HASH_PIECE);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			rc = n < 0 ? -errno : 0;
			break;
		}
		rc = hasher_update(h, piece, (size_t)n);
	}
	return rc < 0 ? rc : hasher_final(h, ret);
}

int env_entry_hash(const struct env_entry *e, struct digest *ret,
		   struct error *err)
{
	AUTO_CLOSE int fd = -1;
	int rc = env_entry_open(e, &fd, err);

	if (rc < 0)
		return rc;
	rc = hash_fd(fd, ret);
	return rc < 0 ? error_set(err, -rc, "read '%.300s': %s", e->path,
				  strerror(-rc))
		      : 0;
}

int env_scan_hash_recent(struct env_scan *s, struct error *err)
{
	struct timespec t;
	int64_t now;
	int rc = 0;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	now = stat_ns(&t);
	for (size_t i = 0; rc == 0 && i < s->n; i++) {
		struct env_entry *e = &s->entries[i];

		if (!S_ISREG(e->mode) || e->ctime_ns < now - RECENT_NS)
			continue;
		rc = env_entry_hash(e, &e->content, err);
		e->has_content = rc == 0;
	}
	return rc;
}

int env_scan_digest(const struct env_scan *s, struct digest *ret,
		    struct error *err)
{
	AUTO(hasher) h = hasher_new();
	AUTO_BUF line = BUF_INIT;
	int rc = h ? 0 : -ENOMEM;

	for (size_t i = 0; rc == 0 && i < s->n; i++) {
		const struct env_entry *e = &s->entries[i];

		/* What brings drivers into a container makes it anew at each start. */
		if (strcmp(e->path, "/etc/ld.so.cache") == 0)
			continue;
		buf_reset(&line);
		/* A folder's time is of when it was made here. */
		rc = buf_printf(&line,
				"%o %u %u %" PRIu64 " %" PRIu64 " %" PRId64
				" %zu %zu\n%s%s",
				e->mode, e->uid, e->gid, e->size, e->rdev,
				S_ISREG(e->mode) ? e->mtime_ns : 0,
				strlen(e->path), e->link ? strlen(e->link) : 0,
				e->path, e->link ? e->link : "");
		if (rc == 0)
			rc = hasher_update(h, line.data, line.len);
	}
	if (rc == 0)
		rc = hasher_final(h, ret);
	return rc < 0 ? error_nomem(err) : 0;
}

bool env_scan_is_same(const struct env_scan *a, const struct env_scan *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->entries[i].path, b->entries[i].path) != 0 ||
		    !env_entry_is_same(&a->entries[i], &b->entries[i]))
			return false;
	return true;
}
