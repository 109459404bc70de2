// SPDX-License-Identifier: Apache-2.0
#include "envcache/stage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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

#define OLD_NAME 16
#define LOG_MAX (1u << 30)
#define LOOK_NS (50 * INT64_C(1000000))

void stage_init(struct stage *s)
{
	*s = (struct stage){
		.root = -1, .dir = -1, .new_fd = -1, .old_fd = -1, .log_fd = -1
	};
}

static int open_folder(int in, const char *name)
{
	return openat(in, name,
		      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool wait_a_little(int64_t deadline_ns)
{
	struct timespec t = { .tv_nsec = LOOK_NS };

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
	s->dir = open_folder(s->root, s->name);
	if (s->dir < 0 || mkdirat(s->dir, "new", 0700) < 0 ||
	    mkdirat(s->dir, "old", 0700) < 0)
		return error_set(err, errno, "prepare '%s' in the target: %s",
				 s->name, strerror(errno));
	s->new_fd = open_folder(s->dir, "new");
	s->old_fd = open_folder(s->dir, "old");
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
		return error_set(err, errno, "open '%.300s': %s", path,
				 strerror(errno));
	if (getrandom(&id, sizeof(id), 0) != sizeof(id))
		return error_set(err, EIO, "no random bytes");
	(void)snprintf(s->name, sizeof(s->name), ENV_STAGING "%016" PRIx64, id);
	rc = stage_lock(s->root, deadline_ns, err);
	if (rc == 0)
		rc = make_below(s, err);
	return rc < 0 ? error_wrap(err, rc, "'%.200s'", path) : 0;
}

static void close_one(int *fd)
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
	close_one(&s->log_fd);
	close_one(&s->old_fd);
	close_one(&s->new_fd);
	close_one(&s->dir);
	close_one(&s->root);
}

/* ------------------------------------------------------------------------ the log --- */

static int put_record(struct stage *s, const struct buf *text,
		      struct error *err)
{
	int rc = fs_write_full(s->log_fd, text->data, text->len + 1);

	return rc < 0 ? fs_refuse_write(s->log_fd, rc, text->len, "", err) : 0;
}

int stage_log_put(struct stage *s, const char *path, struct error *err)
{
	AUTO_BUF text = BUF_INIT;

	return buf_printf(&text, "P %s", path) < 0 ? error_nomem(err)
						   : put_record(s, &text, err);
}

int stage_log_attributes(struct stage *s, int fd, const char *path,
			 struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return error_set(err, errno, "'%.300s': %s", path,
				 strerror(errno));
	return buf_printf(&text, "A %o %u %u %jd %ld %s", st.st_mode & 07777,
			  st.st_uid, st.st_gid, (intmax_t)st.st_mtim.tv_sec,
			  st.st_mtim.tv_nsec, path) < 0
		       ? error_nomem(err)
		       : put_record(s, &text, err);
}

int stage_commit(struct stage *s, struct error *err)
{
	return unlinkat(s->dir, "log", 0) == 0
		       ? 0
		       : error_set(err, errno, "end the log: %s",
				   strerror(errno));
}

/* ---------------------------------------------------------------------- put aside --- */

static int aside_one(struct stage *s, int dir, const char *name,
		     const char *path, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	char old[OLD_NAME];
	int rc;

	(void)snprintf(old, sizeof(old), "%u", s->n_old++);
	if (buf_printf(&text, "O %s %s", old, path) < 0)
		return error_nomem(err);
	rc = put_record(s, &text, err);
	if (rc < 0 || renameat(dir, name, s->old_fd, old) == 0 ||
	    errno == ENOENT)
		return rc;
	return error_set(err, errno, "move '%.300s' away: %s", path,
			 strerror(errno));
}

/* A folder of an overlay's lower layer cannot be moved, but what is in it can. */
static int aside_folder(struct stage *s, int parent, const char *name,
			const char *path, struct error *err)
{
	AUTO_CLOSE int fd = open_folder(parent, name);
	struct dirent **names = NULL;
	AUTO_BUF text = BUF_INIT;
	int rc, n;

	if (fd < 0)
		return error_set(err, errno, "open '%.300s': %s", path,
				 strerror(errno));
	rc = stage_log_attributes(s, fd, path, err);
	n = rc < 0 ? 0 : scandirat(fd, ".", &names, NULL, NULL);
	if (n < 0)
		rc = error_set(err, errno, "list '%.300s': %s", path,
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
		rc = error_set(err, errno, "remove '%.300s': %s", path,
			       strerror(errno));
	return rc;
}

int stage_put_aside(struct stage *s, int dir, const char *name,
		    const char *path, struct error *err)
{
	struct error why = ERROR_INIT;
	struct stat st;
	int rc;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0
				       : error_set(err, errno, "'%.300s': %s",
						   path, strerror(errno));
	rc = aside_one(s, dir, name, path, &why);
	if (rc == -EXDEV && S_ISDIR(st.st_mode))
		return aside_folder(s, dir, name, path, err);
	if (rc < 0 && err)
		*err = why;
	return rc;
}

/* --------------------------------------------------------------------------- undo --- */

/* The folder that `path` is in, and its name there.  -ENOENT. */
static int open_parent(const struct stage *s, const char *path, int *ret_fd,
		       const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	AUTO_FREE char *parent =
		slash ? strndup(path, (size_t)(slash - path)) : strdup(".");

	if (!parent)
		return -ENOMEM;
	*ret_fd = fs_openat2(s->root, parent, O_RDONLY | O_DIRECTORY,
			     RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	*ret_name = slash ? slash + 1 : path;
	return *ret_fd < 0 ? -errno : 0;
}

static int gone_is_done(int rc)
{
	return rc < 0 && errno != ENOENT ? -errno : 0;
}

static int undo_put(struct stage *s, int dir, const char *name)
{
	char aside[OLD_NAME];

	(void)snprintf(aside, sizeof(aside), "u%u", s->n_old++);
	return gone_is_done(renameat(dir, name, s->new_fd, aside));
}

static int undo_attributes(const char *text, int dir, const char *name)
{
	AUTO_CLOSE int fd = open_folder(dir, name);
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT } };
	unsigned int mode, uid, gid;
	intmax_t sec;
	long nsec;

	if (sscanf(text, "A %o %u %u %jd %ld ", &mode, &uid, &gid, &sec,
		   &nsec) != 5)
		return -EBADMSG;
	times[1] = (struct timespec){ .tv_sec = sec, .tv_nsec = nsec };
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (fchown(fd, uid, gid) < 0 || fchmod(fd, mode & 07777) < 0 ||
	    futimens(fd, times) < 0)
		return -errno;
	return 0;
}

/* Where the path of a record begins: behind so many words. */
static const char *path_of(const char *text, unsigned int words)
{
	while (text && words--) {
		text = strchr(text, ' ');
		text = text ? text + 1 : NULL;
	}
	return text;
}

static int undo_record(struct stage *s, const char *text)
{
	const char *path = path_of(text, text[0] == 'A'   ? 6
					 : text[0] == 'O' ? 2
							  : 1);
	AUTO_CLOSE int dir = -1;
	char old[OLD_NAME];
	const char *name;
	int rc = path ? open_parent(s, path, &dir, &name) : -EBADMSG;

	/* "." is the target itself, which has attributes only. */
	if (rc < 0)
		return rc == -ENOENT && text[0] == 'P' ? 0 : rc;
	switch (text[0]) {
	case 'P':
		return undo_put(s, dir, name);
	case 'O':
		if (sscanf(text, "O %15s ", old) != 1)
			return -EBADMSG;
		return gone_is_done(renameat(s->old_fd, old, dir, name));
	case 'R':
		return mkdirat(dir, name, 0700) < 0 && errno != EEXIST ? -errno
								       : 0;
	case 'A':
		return undo_attributes(text, dir, name);
	default:
		return -EBADMSG;
	}
}

/* From the last whole record to the first; one that is done leaves the log, so that
 * it is not done twice when this is killed, too. */
int stage_undo(struct stage *s, struct error *err)
{
	AUTO_BUF log = { .limit = LOG_MAX };
	struct stat st;
	size_t end;

	if (fstat(s->log_fd, &st) < 0 ||
	    buf_reserve(&log, (size_t)st.st_size + 1) < 0 ||
	    fs_pread_full(s->log_fd, log.data, (size_t)st.st_size, 0) < 0)
		return error_set(err, EIO, "the log of '%s' cannot be read",
				 s->name);
	end = (size_t)st.st_size;
	while (end && log.data[end - 1])
		end--;
	while (end) {
		size_t at = end - 1;
		int rc;

		while (at && log.data[at - 1])
			at--;
		rc = undo_record(s, log.data + at);
		if (rc < 0)
			return error_set(err, -rc, "take back '%.200s': %s",
					 log.data + at, strerror(-rc));
		if (ftruncate(s->log_fd, (off_t)at) < 0)
			return error_set(err, errno, "cut the log of '%s': %s",
					 s->name, strerror(errno));
		end = at;
	}
	return 0;
}

/* ------------------------------------------------------------------------ recover --- */

/* Only what this user made is believed: the log of a stranger could have us give
 * folders away. */
static bool is_ours(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
	       (st.st_mode & 077) == 0;
}

static int recover_one(int root, const char *name, struct error *err)
{
	struct stage s;
	int rc = 0;

	stage_init(&s);
	s.root = fcntl(root, F_DUPFD_CLOEXEC, 0);
	s.dir = open_folder(root, name);
	if (s.root < 0 || s.dir < 0 || !is_ours(s.dir)) {
		close_one(&s.dir); /* so that nothing is removed */
		stage_close(&s);
		return 0;
	}
	(void)snprintf(s.name, sizeof(s.name), "%.39s", name);
	s.new_fd = open_folder(s.dir, "new");
	s.old_fd = open_folder(s.dir, "old");
	s.log_fd = openat(s.dir, "log", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (s.log_fd >= 0 && s.new_fd >= 0 && s.old_fd >= 0)
		rc = stage_undo(&s, err);
	if (rc < 0)
		close_one(&s.dir); /* what was put aside is kept */
	stage_close(&s);
	return rc;
}

static int is_staging(const struct dirent *d)
{
	return strncmp(d->d_name, ENV_STAGING, strlen(ENV_STAGING)) == 0;
}

int env_recover(const struct env_targets *t, int64_t deadline_ns,
		struct error *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < t->n; i++) {
		AUTO_CLOSE int root =
			fs_openat2(AT_FDCWD, t->paths[i],
				   O_RDONLY | O_DIRECTORY, RESOLVE_NO_SYMLINKS);
		struct dirent **names = NULL;
		int n = root < 0 ? 0
				 : scandirat(root, ".", &names, is_staging,
					     alphasort);

		if (n > 0)
			rc = stage_lock(root, deadline_ns, err);
		for (int k = 0; k < n; k++) {
			if (rc == 0)
				rc = recover_one(root, names[k]->d_name, err);
			free(names[k]);
		}
		free((void *)names);
		if (rc < 0)
			rc = error_wrap(err, rc, "target '%.200s'",
					t->paths[i]);
	}
	return rc;
}
