// SPDX-License-Identifier: Apache-2.0
/* Shared parts of changes to folders: errors, parent folders, moves and locks. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#include "common/clock.h"
#include "objects/file/file_path.h"

#define LOCK_STEP_NS 5000000LL

void file_stat_fill(const struct stat *st, struct object_stat *ret)
{
	ret->size = (uint64_t)st->st_size;
	ret->modified_ms = clock_scale(st->st_mtim.tv_sec, 1000,
				       st->st_mtim.tv_nsec / NS_PER_MS);
	(void)snprintf(ret->tag, sizeof(ret->tag), "%jx-%jx%09lu-%jx",
		       (uintmax_t)st->st_ino, (uintmax_t)st->st_mtim.tv_sec,
		       (unsigned long)st->st_mtim.tv_nsec,
		       (uintmax_t)st->st_size);
}

const char *file_cure(int code)
{
	switch (code) {
	case ENOSPC:
	case EDQUOT:
		return ": make room there, or raise the quota";
	case EROFS:
		return ": it is mounted read-only";
	case EACCES:
	case EPERM:
		return ": give this user the right to the directory";
	case ENOTDIR:
	case EISDIR:
		return ": an object cannot have the name of a folder, nor the "
		       "reverse";
	case ELOOP:
		return ": symbolic links below the directory are not followed: "
		       "mount there what lies elsewhere";
	case ESTALE:
	case EIO:
		return ": see the kernel's log on this machine and the server";
	default:
		return "";
	}
}

int file_error(const struct file_store *f, int code, const char *what,
	       const char *name, struct error *err)
{
	int as = code == EPERM    ? EACCES
		 : code == EDQUOT ? ENOSPC
		 : code == ESTALE ? EIO
				  : code;

	char rights[FILE_RIGHTS_ROOM] = "";

	if (as == EACCES)
		file_share_explain(f, name, rights);
	return error_set(err, as, "%s %s/%.200s: %s%s%s", what, f->path, name,
			 strerror(code), rights, file_cure(code));
}

bool file_is_none(int code)
{
	return code == ENOENT || code == ENOTDIR || code == ELOOP;
}

int file_look(struct file_store *f, const char *name, struct stat *ret,
	      struct error *err)
{
	if (file_path_stat(f, name, ret) < 0) {
		int code = file_is_none(errno) ? ENOENT : errno;

		return file_error(f, code, "look at", name, err);
	}
	if (!S_ISREG(ret->st_mode))
		return error_set(err, ENOENT, "%s/%s is not a file", f->path,
				 name);
	return 0;
}

static char *parent_of(const char *name)
{
	const char *slash = strrchr(name, '/');

	return slash ? strndup(name, (size_t)(slash - name)) : strdup(".");
}

static int sync_folder(struct file_store *f, const char *folder,
		       struct error *err)
{
	AUTO_CLOSE int fd = file_path_open_folder(f, folder);

	/* EINVAL: the file system cannot sync a folder */
	if (fd < 0 || (fsync(fd) < 0 && errno != EINVAL))
		return file_error(f, errno, "make durable", folder, err);
	return 0;
}

int file_sync_parent(struct file_store *f, const char *name, struct error *err)
{
	AUTO_FREE char *parent = parent_of(name);

	return parent ? sync_folder(f, parent, err) : error_nomem(err);
}

int file_make_parents(struct file_store *f, const char *name, struct error *err)
{
	AUTO_FREE char *path = strdup(name);

	if (!path)
		return error_nomem(err);
	for (char *at = path; (at = strchr(at, '/')); *at++ = '/') {
		int rc = 0;

		*at = '\0';
		if (file_path_mkdir(f, path, 0777) == 0) {
			file_share_folder(f, path);
			rc = file_sync_parent(f, path, err);
		} else if (errno != EEXIST)
			rc = file_error(f, errno, "make folder", path, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Move without replacing, where rename cannot refuse to replace: link() can. */
static int move_by_link(struct file_store *f, const char *from, const char *to)
{
	if (file_path_link(f, from, to) < 0)
		return -errno;
	(void)file_path_unlink(f, from, 0);
	return 0;
}

static int move_once(struct file_store *f, const char *from, const char *to,
		     bool replace)
{
	if (replace)
		return file_path_rename(f, from, to, 0) < 0 ? -errno : 0;
	if (file_path_rename(f, from, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno == EINVAL || errno == ENOSYS)
		return move_by_link(f, from, to);
	return -errno;
}

int file_move(struct file_store *f, const char *from, const char *to,
	      enum object_condition condition, struct error *err)
{
	bool replace = condition != OBJECT_NEW;
	int rc = move_once(f, from, to, replace);
	struct stat st;

	if (rc == -ENOENT && file_path_stat(f, from, &st) == 0) {
		rc = file_make_parents(f, to, err);
		if (rc < 0)
			return rc;
		rc = move_once(f, from, to, replace);
	}
	if (rc == -EEXIST)
		return error_set(err, EEXIST, "there is one of this name");
	return rc < 0 ? file_error(f, -rc, "rename to", to, err) : 0;
}

/* Number of a name's lock file. There are 256 for all names; names that share one wait for each
 * other. */
static unsigned int lock_number(const char *name)
{
	uint64_t hash = 14695981039346656037u;

	for (const char *c = name; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 1099511628211u;
	return (unsigned int)(hash >> 56);
}

static int open_or_make(struct file_store *f, const char *path)
{
	int fd = file_path_open(f, path, O_RDWR, 0);

	if (fd >= 0 || errno != ENOENT)
		return fd;
	fd = file_path_open(f, path, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd < 0 && errno == EEXIST)
		return file_path_open(f, path, O_RDWR, 0);
	if (fd >= 0)
		file_share_lock(f, fd);
	return fd;
}

/* Open a lock file. It is never removed: removal would take away a file that another process
 * has locked. */
static int open_lock(struct file_store *f, unsigned int number,
		     struct error *err)
{
	char path[64];
	int fd, rc;

	(void)snprintf(path, sizeof(path), "%s/%02x", STORE_LOCKS, number);
	fd = open_or_make(f, path);
	if (fd < 0 && errno == ENOENT) {
		rc = file_make_parents(f, path, err);
		if (rc < 0)
			return rc;
		fd = open_or_make(f, path);
	}
	return fd < 0 ? file_error(f, errno, "open", path, err) : fd;
}

static int take_lock(struct file_store *f, unsigned int number, int *ret_fd,
		     struct error *err)
{
	struct flock whole = { .l_type = F_WRLCK };
	int64_t give_up = store_deadline(&f->base);
	AUTO_CLOSE int fd = open_lock(f, number, err);

	if (fd < 0)
		return fd;
	while (fcntl(fd, F_OFD_SETLK, &whole) < 0) {
		struct timespec t =
			clock_timespec(clock_now_ns() + LOCK_STEP_NS);

		if (errno != EAGAIN && errno != EACCES && errno != EINTR)
			return error_set(err, ENOTSUP,
					 "%s has no locks (%s): mount it with "
					 "them, or use another store",
					 f->path, strerror(errno));
		if (clock_now_ns() >= give_up)
			return error_set(err, EBUSY,
					 "another process has it locked");
		(void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
	}
	*ret_fd = steal_fd(&fd);
	return 0;
}

int file_lock(struct file_store *f, const char *name, int *ret_fd,
	      struct error *err)
{
	return take_lock(f, lock_number(name), ret_fd, err);
}

int file_lock_if_any(struct file_store *f, const char *name, int *ret_fd,
		     struct error *err)
{
	int rc = file_lock(f, name, ret_fd, err);

	return rc == -ENOTSUP || rc == -EACCES ? 0 : rc;
}

/* Lock the lower number first, so that two processes cannot wait for each other. */
int file_lock_both(struct file_store *f, const char *a, const char *b,
		   int *ret_first, int *ret_second, struct error *err)
{
	bool is_swapped = lock_number(a) > lock_number(b);
	int rc = file_lock_if_any(f, is_swapped ? b : a, ret_first, err);

	if (rc == 0 && lock_number(a) != lock_number(b))
		rc = file_lock_if_any(f, is_swapped ? a : b, ret_second, err);
	return rc;
}

int file_check_tag(struct file_store *f, const char *name, const char *tag,
		   struct error *err)
{
	struct object_stat now;
	struct stat st;
	int rc = file_look(f, name, &st, err);

	if (rc < 0 && rc != -ENOENT)
		return rc;
	if (rc == 0)
		file_stat_fill(&st, &now);
	if (rc < 0 || strcmp(now.tag, tag) != 0)
		return error_set(err, ESTALE,
				 "another has replaced or removed it");
	return 0;
}
