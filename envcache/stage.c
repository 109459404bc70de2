// SPDX-License-Identifier: Apache-2.0
/* The log of a restore: each step is written down before it is done. Taking it back:
 * stage_undo.c. */
#include "envcache/stage_priv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/xattr.h>
#include <time.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/fs.h"
#include "envcache/xattrs.h"

void stage_init(struct stage *s)
{
	*s = (struct stage){
		.root = -1, .dir = -1, .new_fd = -1, .old_fd = -1, .log_fd = -1
	};
}

int stage_open_folder(int in, const char *name)
{
	return openat(in, name,
		      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool wait_a_little(int64_t deadline_ns)
{
	struct timespec t = { .tv_nsec = STAGE_LOOK_NS };

	if (clock_now_ns() >= deadline_ns)
		return false;
	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	return true;
}

/* Two that undo in one folder would take each other's files away. */
int stage_lock(int fd, int64_t deadline_ns, struct error *err)
{
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return error_set(err, errno, "lock it: %s",
					 strerror(errno));
		if (!wait_a_little(deadline_ns))
			return error_set(err, EBUSY,
					 "another restore works on it");
	}
	return 0;
}

static int make_below(struct stage *s, struct error *err)
{
	if (mkdirat(s->root, s->name, 0700) < 0)
		return error_set(err, errno, "make '%s' in the target: %s",
				 s->name, strerror(errno));
	s->dir = stage_open_folder(s->root, s->name);
	if (s->dir < 0 || mkdirat(s->dir, "new", 0700) < 0 ||
	    mkdirat(s->dir, "old", 0700) < 0)
		return error_set(err, errno, "prepare '%s' in the target: %s",
				 s->name, strerror(errno));
	s->new_fd = stage_open_folder(s->dir, "new");
	s->old_fd = stage_open_folder(s->dir, "old");
	/* Files made in it must not get what the target gives to its own. */
	if (s->new_fd >= 0)
		(void)!fremovexattr(s->new_fd, "system.posix_acl_default");
	s->log_fd =
		openat(s->dir, "log",
		       O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
	if (s->new_fd < 0 || s->old_fd < 0 || s->log_fd < 0)
		return error_set(err, errno, "prepare '%s' in the target: %s",
				 s->name, strerror(errno));
	return 0;
}

int stage_open(struct stage *s, const char *path, int64_t deadline_ns,
	       struct error *err)
{
	uint64_t id;
	int rc;

	s->root = fs_openat2(AT_FDCWD, path, O_RDONLY | O_DIRECTORY,
			     RESOLVE_NO_SYMLINKS);
	if (s->root < 0)
		return error_set(err, errno, "open '%.160s': %s", path,
				 strerror(errno));
	if (getrandom(&id, sizeof(id), 0) != sizeof(id))
		return error_set(err, EIO, "no random bytes");
	(void)snprintf(s->name, sizeof(s->name), ENV_STAGING "%016" PRIx64, id);
	rc = stage_lock(s->root, deadline_ns, err);
	if (rc == 0)
		rc = make_below(s, err);
	return rc < 0 ? error_wrap(err, rc, "'%.200s'", path) : 0;
}

void stage_close_one(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

void stage_close(struct stage *s)
{
	char path[64];

	if (s->dir >= 0) {
		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d/%s",
			       s->root, s->name);
		(void)!fs_remove_tree(path, NULL);
	}
	stage_close_one(&s->log_fd);
	stage_close_one(&s->old_fd);
	stage_close_one(&s->new_fd);
	stage_close_one(&s->dir);
	stage_close_one(&s->root);
}

/* ------------------------------------------------------------------------ the log --- */

static int put_record(struct stage *s, const struct buf *text,
		      struct error *err)
{
	int rc = fs_write_full(s->log_fd, text->data, text->len + 1);

	return rc < 0 ? fs_refuse_write(s->log_fd, rc, text->len, "", err) : 0;
}

int stage_identify(int dir, const char *name, struct stage_identity *ret)
{
	struct statx x;

	if (statx(dir, name, AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_BTIME, &x) <
	    0)
		return -errno;
	*ret = (struct stage_identity){ .ino = x.stx_ino };
	if (x.stx_mask & STATX_BTIME) {
		ret->sec = x.stx_btime.tv_sec;
		ret->nsec = x.stx_btime.tv_nsec;
	}
	return 0;
}

int stage_log_put(struct stage *s, int from, const char *name, const char *path,
		  struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	struct stage_identity i;
	int rc = stage_identify(from, name, &i);

	if (rc < 0)
		return error_set(err, -rc, "'%.160s' of the stage: %s", path,
				 strerror(-rc));
	return buf_printf(&text, "N %" PRId64 " %u %" PRIu64 " %s", i.sec,
			  i.nsec, i.ino, path) < 0
		       ? error_nomem(err)
		       : put_record(s, &text, err);
}

int stage_log_attributes(struct stage *s, int fd, const char *path,
			 struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return error_set(err, errno, "'%.160s': %s", path,
				 strerror(errno));
	return buf_printf(&text, "A %o %u %u %jd %ld %s", st.st_mode & 07777,
			  st.st_uid, st.st_gid, (intmax_t)st.st_mtim.tv_sec,
			  st.st_mtim.tv_nsec, path) < 0
		       ? error_nomem(err)
		       : put_record(s, &text, err);
}

static int put_hex(struct buf *b, const void *data, size_t len)
{
	const unsigned char *p = data;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < len; i++)
		rc = buf_printf(b, "%02x", p[i]);
	return rc;
}

/* `len` < 0: it had none of this name. */
static int log_xattr(struct stage *s, const char *name, const void *value,
		     ssize_t len, const char *path, struct error *err)
{
	AUTO_BUF text = BUF_INIT;

	if (buf_puts(&text, "X ") < 0 ||
	    put_hex(&text, name, strlen(name)) < 0 ||
	    buf_puts(&text, len < 0 ? " -" : " ") < 0 ||
	    (len > 0 && put_hex(&text, value, (size_t)len) < 0) ||
	    buf_printf(&text, " %s", path) < 0)
		return error_nomem(err);
	return put_record(s, &text, err);
}

int stage_log_xattrs(struct stage *s, int fd, const struct inode *i,
		     const char *path, struct error *err)
{
	AUTO_FREE char *value =
		i->xattrs ? malloc(TREE_XATTR_VALUE_MAX + 1) : NULL;
	int rc = value || !i->xattrs ? 0 : error_nomem(err);

	for (const struct xattr *x = i->xattrs; rc == 0 && x; x = x->next) {
		ssize_t n =
			fgetxattr(fd, x->name, value, TREE_XATTR_VALUE_MAX + 1);

		if (n < 0 && errno != ENODATA)
			return error_set(err, errno, "attribute %s: %s",
					 x->name, strerror(errno));
		rc = log_xattr(s, x->name, value, n, path, err);
	}
	return rc;
}

/* All that a folder has which is about to be removed. */
static int log_own_xattrs(struct stage *s, int fd, const char *path,
			  struct error *err)
{
	AUTO(tree) t = tree_new();
	struct inode *i = t ? tree_root(t) : NULL;
	int rc = i ? xattrs_read(fd, t, i, err) : error_nomem(err);

	for (const struct xattr *x = i ? i->xattrs : NULL; rc == 0 && x;
	     x = x->next)
		rc = log_xattr(s, x->name, x->value, (ssize_t)x->size, path,
			       err);
	return rc;
}

int stage_commit(struct stage *s, struct error *err)
{
	return unlinkat(s->dir, "log", 0) == 0
		       ? 0
		       : error_set(err, errno, "end the log: %s",
				   strerror(errno));
}

int stage_follow(struct stage *s, const char *leader, struct error *err)
{
	AUTO_BUF text = BUF_INIT;

	return buf_printf(&text, "L %s", leader) < 0
		       ? error_nomem(err)
		       : put_record(s, &text, err);
}

int stage_commit_leader(struct stage *s, const struct buf *others,
			struct error *err)
{
	AUTO_CLOSE int fd =
		openat(s->dir, "done.new",
		       O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int rc = fd < 0 ? -errno : fs_write_full(fd, others->data, others->len);

	if (rc == 0 && renameat(s->dir, "done.new", s->dir, "done") < 0)
		rc = -errno;
	return rc < 0 ? error_set(err, -rc, "end the log: %s", strerror(-rc))
		      : 0;
}

/* ---------------------------------------------------------------------- put aside --- */

/* `stays`: it is at its place, too, until something else is moved there. */
static int aside_one(struct stage *s, int dir, const char *name,
		     const char *path, bool stays, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	char old[OLD_NAME];
	int rc;

	(void)snprintf(old, sizeof(old), "%u", s->n_old++);
	if (buf_printf(&text, "O %s %s", old, path) < 0)
		return error_nomem(err);
	rc = put_record(s, &text, err);
	/* No folder, and with some rights no file of another, has a second name. */
	if (rc < 0 || (stays && linkat(dir, name, s->old_fd, old, 0) == 0) ||
	    renameat(dir, name, s->old_fd, old) == 0 || errno == ENOENT)
		return rc;
	return error_set(err, errno, "move '%.160s' away: %s", path,
			 strerror(errno));
}

/* A folder of an overlay's lower layer cannot be moved, but what is in it can. */
static int aside_folder(struct stage *s, int parent, const char *name,
			const char *path, struct error *err)
{
	AUTO_CLOSE int fd = stage_open_folder(parent, name);
	struct dirent **names = NULL;
	AUTO_BUF text = BUF_INIT;
	int rc, n;

	if (fd < 0)
		return error_set(err, errno, "open '%.160s': %s", path,
				 strerror(errno));
	rc = stage_log_attributes(s, fd, path, err);
	if (rc == 0)
		rc = log_own_xattrs(s, fd, path, err);
	n = rc < 0 ? 0 : scandirat(fd, ".", &names, NULL, NULL);
	if (n < 0)
		rc = error_set(err, errno, "list '%.160s': %s", path,
			       strerror(errno));
	for (int i = 0; i < n; i++) {
		const char *child = names[i]->d_name;
		AUTO_BUF below = BUF_INIT;

		if (rc == 0 && strcmp(child, ".") != 0 &&
		    strcmp(child, "..") != 0)
			rc = buf_printf(&below, "%s/%s", path, child) < 0
				     ? error_nomem(err)
				     : stage_put_aside(s, fd, child, below.data,
						       err);
		free(names[i]);
	}
	free((void *)names);
	if (rc == 0 && buf_printf(&text, "R %s", path) < 0)
		rc = error_nomem(err);
	if (rc == 0)
		rc = put_record(s, &text, err);
	if (rc == 0 && unlinkat(parent, name, AT_REMOVEDIR) < 0)
		rc = error_set(err, errno, "remove '%.160s': %s", path,
			       strerror(errno));
	return rc;
}

/* A folder that its owner may not write to cannot be moved; the log gives it
 * back what it had. */
static int allow_aside(struct stage *s, int dir, const char *name,
		       const char *path, struct error *err)
{
	AUTO_CLOSE int fd = stage_open_folder(dir, name);
	struct stat st;
	int rc;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(err, errno, "open '%.160s': %s", path,
				 strerror(errno));
	rc = stage_log_attributes(s, fd, path, err);
	if (rc == 0 && fchmod(fd, (st.st_mode & 07777) | 0700) < 0)
		rc = error_set(err, errno, "chmod '%.160s': %s", path,
			       strerror(errno));
	return rc;
}

static int put_aside(struct stage *s, int dir, const char *name,
		     const char *path, bool stays, struct error *err)
{
	struct error why = ERROR_INIT;
	struct stat st;
	int rc;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0
				       : error_set(err, errno, "'%.160s': %s",
						   path, strerror(errno));
	if (S_ISDIR(st.st_mode) && !(st.st_mode & 0200) && geteuid() != 0)
		rc = allow_aside(s, dir, name, path, &why);
	else
		rc = 0;
	if (rc == 0)
		rc = aside_one(s, dir, name, path, stays, &why);
	if (rc == -EXDEV && S_ISDIR(st.st_mode))
		return aside_folder(s, dir, name, path, err);
	if (rc < 0 && err)
		*err = why;
	return rc;
}

int stage_put_aside(struct stage *s, int dir, const char *name,
		    const char *path, struct error *err)
{
	return put_aside(s, dir, name, path, false, err);
}

int stage_keep_aside(struct stage *s, int dir, const char *name,
		     const char *path, struct error *err)
{
	return put_aside(s, dir, name, path, true, err);
}
