// SPDX-License-Identifier: Apache-2.0
#include "common/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <libgen.h>
#include <string.h>
#include <sys/stat.h>

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

int fs_mkdir(const char *path, unsigned int mode, struct error *err)
{
	AUTO_FREE char *copy = strdup(path);

	if (!copy)
		return error_nomem(err);
	if (mkdir(path, mode) == 0 || errno == EEXIST)
		return 0;
	if (errno == ENOENT)
		return error_set(err, ENOENT,
				 "make folder '%s': there is no '%s': make "
				 "that first, or mend the path",
				 path, dirname(copy));
	return error_set(err, errno, "make folder '%s': %s%s", path,
			 strerror(errno), error_root_hint(errno));
}

int fs_read_file(const char *path, size_t max, struct buf *ret,
		 struct error *err)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t start = ret->len;

	if (fd < 0)
		return error_set(err, errno, "open '%s': %s%s", path,
				 strerror(errno), error_root_hint(errno));
	for (;;) {
		ssize_t n;

		if (buf_reserve(ret, 65536) < 0)
			return error_nomem(err);
		n = read(fd, ret->data + ret->len, 65536);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_set(err, errno, "read '%s': %s", path,
					 strerror(errno));
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

int fs_check_private(const char *path, struct error *err)
{
	struct stat st;

	if (stat(path, &st) < 0 || !(st.st_mode & (S_IRGRP | S_IROTH)))
		return 0;
	return error_set(err, EPERM, "'%s' may be read by %s, mode %04o", path,
			 st.st_mode & S_IROTH ? "everybody" : "its group",
			 (unsigned int)st.st_mode & 07777);
}

int fs_sync_dir(const char *path, struct error *err)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || fsync(fd) < 0)
		return error_set(err, errno, "sync folder '%s': %s", path,
				 strerror(errno));
	return 0;
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
		(void)unlink(tmp);
		return error_set(err, -rc, "write '%s': %s", tmp,
				 strerror(-rc));
	}
	return 0;
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
		rc = error_set(err, errno, "rename to '%s': %s", path,
			       strerror(errno));
		(void)unlink(tmp.data);
		return rc;
	}
	return fs_sync_dir(dirname(copy), err);
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

static int remove_one(const char *path, const struct stat *st, int kind,
		      struct FTW *ftw)
{
	(void)st;
	(void)kind;
	(void)ftw;
	return remove(path) < 0 && errno != ENOENT ? -errno : 0;
}

int fs_remove_tree(const char *path, struct error *err)
{
	int rc = nftw(path, remove_one, 64, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);

	if (rc == -1 && errno == ENOENT)
		return 0;
	if (rc == -1)
		rc = -errno;
	if (rc < 0)
		return error_set(err, -rc, "remove '%s': %s", path,
				 strerror(-rc));
	return 0;
}
