// SPDX-License-Identifier: Apache-2.0
#include "common/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/progress.h"

char *fs_join(const char *dir, const char *name)
{
	AUTO_BUF b = BUF_INIT;

	if (buf_printf(&b, "%s/%s", dir, name) < 0)
		return NULL;
	return buf_steal(&b);
}

int fs_mkdir_p(const char *path, unsigned int mode, struct error *err)
{
	AUTO_FREE char *p = strdup(path);

	if (!p)
		return error_nomem(err);
	for (char *s = p + 1; *p && *s; s++) {
		if (*s != '/')
			continue;
		*s = '\0';
		if (mkdir(p, mode) < 0 && errno != EEXIST)
			return error_set(err, errno,
					 "make directory '%s': %s%s", p,
					 strerror(errno),
					 error_root_hint(errno));
		*s = '/';
	}
	if (mkdir(p, mode) < 0 && errno != EEXIST)
		return error_set(err, errno, "make directory '%s': %s%s", p,
				 strerror(errno), error_root_hint(errno));
	return 0;
}

static int refuse_parent(const char *path, const char *parent,
			 struct error *err)
{
	return error_set(err, ENOENT,
			 "make folder '%s': there is no '%s': make that first, "
			 "or mend the path",
			 path, parent);
}

int fs_check_parent(const char *path, struct error *err)
{
	AUTO_FREE char *copy = strdup(path);
	const char *parent;
	struct stat st;

	if (!copy)
		return error_nomem(err);
	if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
		return error_set(err, ENOTDIR,
				 "'%s' is no folder: name another, or move it "
				 "away first",
				 path);
	if (access(path, F_OK) == 0 || errno != ENOENT)
		return 0;
	parent = dirname(copy);
	if (access(parent, F_OK) == 0 || errno != ENOENT)
		return 0;
	return refuse_parent(path, parent, err);
}

int fs_mkdir(const char *path, unsigned int mode, struct error *err)
{
	char copy[PATH_MAX]; /* mkdir(2) refused longer paths with another
	                      * error than ENOENT */

	if (mkdir(path, mode) == 0 || errno == EEXIST)
		return 0;
	if (errno == ENOENT) {
		(void)snprintf(copy, sizeof(copy), "%s", path);
		return refuse_parent(path, dirname(copy), err);
	}
	return error_set(err, errno, "make folder '%s': %s%s", path,
			 strerror(errno), error_root_hint(errno));
}

/* Set *ret if the open folder is empty or has one of the names `ours`.  A lost+found does not
 * count: each newly made file system has one. */
static int is_empty_or_has(int fd, const char *const *ours, bool *ret,
			   struct error *err)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *e;
	struct stat st;

	if (!dir) {
		fd_close(copy);
		return error_errno(err, errno, "list it");
	}
	*ret = true;
	while (*ret && (e = readdir(dir)))
		*ret = strcmp(e->d_name, ".") == 0 ||
		       strcmp(e->d_name, "..") == 0 ||
		       strcmp(e->d_name, "lost+found") == 0;
	closedir(dir);
	for (; !*ret && *ours; ours++)
		*ret = fstatat(fd, *ours, &st, AT_SYMLINK_NOFOLLOW) == 0;
	return 0;
}

int fs_mkdir_private(const char *path, const char *const *ours,
		     struct error *err)
{
	int rc = fs_mkdir(path, 0700, err);
	AUTO_CLOSE int fd = -1;
	bool good = false;
	struct stat st;

	if (rc < 0)
		return rc;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(err, errno, "folder '%s': %s%s", path,
				 strerror(errno), error_root_hint(errno));
	if (st.st_uid != geteuid())
		return error_set(err, EPERM,
				 "folder '%s' belongs to user %u, who could "
				 "change what is in it: chown %u it",
				 path, st.st_uid, geteuid());
	if ((st.st_mode & 077) == 0)
		return 0;
	good = !ours;
	rc = ours ? is_empty_or_has(fd, ours, &good, err) : 0;
	if (rc < 0)
		return error_wrap(err, rc, "folder '%s'", path);
	if (!good)
		return error_set(err, EEXIST,
				 "folder '%s' holds things of others, and "
				 "others may enter it: name a folder for this "
				 "alone, or chmod 700 it",
				 path);
	if (fchmod(fd, 0700) < 0)
		return error_errno(err, errno, "close folder '%s' to others",
				   path);
	return 0;
}

/* Append the bytes of `fd` from its position to its end. */
static int read_to_end(int fd, const char *path, size_t max, struct buf *ret,
		       struct error *err)
{
	size_t start = ret->len;

	for (;;) {
		ssize_t n;

		if (buf_reserve(ret, 65536) < 0)
			return error_nomem(err);
		n = read(fd, ret->data + ret->len, 65536);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EISDIR)
			return error_set(err, EISDIR,
					 "'%s' is a folder: name a file in it",
					 path);
		if (n < 0)
			return error_errno(err, errno, "read '%s'", path);
		if (n == 0)
			break;
		ret->len += (size_t)n;
		ret->data[ret->len] = '\0';
		if (ret->len - start > max)
			return error_set(err, EFBIG,
					 "'%s' is longer than %zu bytes", path,
					 max);
	}
	return 0;
}

int fs_read_file(const char *path, size_t max, struct buf *ret,
		 struct error *err)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return error_set(err, errno, "open '%s': %s%s", path,
				 strerror(errno), error_root_hint(errno));
	return read_to_end(fd, path, max, ret, err);
}

/* Reopen for reading the file that an O_PATH descriptor refers to. */
static int reopen_for_reading(int fd)
{
	char name[40];

	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	return open(name, O_RDONLY | O_CLOEXEC);
}

int fs_read_file_in(int root, const char *path, size_t max, struct buf *ret,
		    struct error *err)
{
	AUTO_CLOSE int at = fs_openat2(root, path, O_PATH,
				       RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
	AUTO_CLOSE int fd = -1;
	struct stat st;

	if (at < 0 || fstat(at, &st) < 0)
		return error_set(err, errno, "open '%s': %s%s", path,
				 strerror(errno), error_root_hint(errno));
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > max)
		return error_set(err, EINVAL,
				 "'%s' is no file of at most %zu bytes", path,
				 max);
	fd = reopen_for_reading(at);
	if (fd < 0)
		return error_set(err, errno, "open '%s': %s%s", path,
				 strerror(errno), error_root_hint(errno));
	return read_to_end(fd, path, max, ret, err);
}

mode_t fs_foreign_mode(const struct stat *st)
{
	bool is_lent = st->st_uid == 0 && geteuid() != 0;

	return st->st_mode & 077 & ~(is_lent ? (mode_t)S_IRGRP : 0);
}

int fs_check_private(const char *path, struct error *err)
{
	const mode_t others = S_IROTH | S_IWOTH;
	struct stat st;

	if (stat(path, &st) < 0 ||
	    !(fs_foreign_mode(&st) & (others | S_IRGRP | S_IWGRP)))
		return 0;
	return error_set(err, EPERM, "'%s' may be %s by %s, mode %04o", path,
			 st.st_mode & (S_IRGRP | S_IROTH) ? "read" : "changed",
			 st.st_mode & others ? "everybody" : "its group",
			 (unsigned int)st.st_mode & 07777);
}

int fs_sync_dir(const char *path, struct error *err)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || fsync(fd) < 0)
		return error_errno(err, errno, "sync folder '%s'", path);
	return 0;
}

int fs_refuse_write(int fd, int rc, uint64_t want, const char *cure,
		    struct error *err)
{
	char path[PATH_MAX], need[PROGRESS_BYTES_MAX];
	char link[32];
	struct statvfs st;
	uint64_t left;
	ssize_t n;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	path[n < 0 ? 0 : n] = '\0';
	if ((rc != -ENOSPC && rc != -EDQUOT) || fstatvfs(fd, &st) < 0)
		return error_errno(err, -rc, "write '%.150s'", path);
	left = (uint64_t)st.f_bavail * st.f_frsize;
	progress_format_bytes(want > left ? want - left : want, need);
	return error_set(err, -rc,
			 "the disk of '%.100s' is full%s: %s more are wanted "
			 "there now: make room%s",
			 dirname(path),
			 rc == -EDQUOT ? " (by its owner's quota)" : "", need,
			 cure);
}

static int write_temp(const char *tmp, const void *data, size_t len,
		      unsigned int mode, struct error *err)
{
	AUTO_CLOSE int fd = mkostemp((char *)(uintptr_t)tmp, O_CLOEXEC);
	int rc;

	if (fd < 0)
		return error_set(err, errno, "create '%s': %s%s", tmp,
				 strerror(errno), error_root_hint(errno));
	rc = fs_write_full(fd, data, len);
	if (rc == 0 && (fchmod(fd, mode) < 0 || fsync(fd) < 0))
		rc = -errno;
	if (rc < 0) {
		rc = fs_refuse_write(fd, rc, len, "", err);
		(void)unlink(tmp);
	}
	return rc;
}

int fs_replace_file(const char *path, const void *data, size_t len,
		    unsigned int mode, struct error *err)
{
	AUTO_BUF tmp = BUF_INIT;
	AUTO_FREE char *copy = strdup(path);
	int rc;

	if (!copy || buf_printf(&tmp, "%s.XXXXXX", path) < 0)
		return error_nomem(err);
	rc = write_temp(tmp.data, data, len, mode, err);
	if (rc < 0)
		return rc;
	if (rename(tmp.data, path) < 0) {
		rc = error_errno(err, errno, "rename to '%s'", path);
		(void)unlink(tmp.data);
		return rc;
	}
	return fs_sync_dir(dirname(copy), err);
}

int fs_is_in_use(int fd)
{
	if (fcntl(fd, F_SETLEASE, F_WRLCK) < 0)
		return errno == EAGAIN || errno == EBUSY ? 1 : -errno;
	/* Release the lease explicitly: a forked child may still have the descriptor. */
	return fcntl(fd, F_SETLEASE, F_UNLCK) < 0 ? -errno : 0;
}

int fs_pread_full(int fd, void *buf, size_t len, uint64_t off)
{
	char *p = buf;

	while (len) {
		ssize_t n = pread(fd, p, len, (off_t)off);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EIO;
		p += n;
		off += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

int fs_pwrite_full(int fd, const void *buf, size_t len, uint64_t off)
{
	const char *p = buf;

	while (len) {
		ssize_t n = pwrite(fd, p, len, (off_t)off);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		p += n;
		off += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

int fs_write_full(int fd, const void *buf, size_t len)
{
	const char *p = buf;

	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

bool fs_is_same(const char *a, const char *b)
{
	struct stat x, y;

	return strcmp(a, b) == 0 ||
	       (stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev &&
		x.st_ino == y.st_ino);
}

bool fs_is_empty(int dir)
{
	int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	size_t n = 0; /* entries, with "." and ".." */

	while (d && n < 3 && readdir(d))
		n++;
	if (d)
		(void)closedir(d);
	else if (copy >= 0)
		(void)close(copy);
	return n == 2;
}
