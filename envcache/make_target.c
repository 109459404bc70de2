// SPDX-License-Identifier: Apache-2.0
#include "envcache/make_target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"

/* Open the folder `name` in `dir`.  If we made it, check that it still is the one we made. */
static int open_path_folder(int dir, const char *name, bool is_made)
{
	int fd = openat(dir, name,
			(is_made ? O_RDONLY : O_PATH) | O_DIRECTORY |
				O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || !is_made)
		return fd < 0 ? -errno : fd;
	if (fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
	    (st.st_mode & 077) == 0)
		return fd;
	(void)close(fd);
	return -ESTALE;
}

/* Enter the folder `path`, called `name` in `*dir`, making it if missing; `*dir` becomes the
 * folder. */
static int enter_or_make(int *dir, const char *name, const char *path,
			 made_folder_fn *fn, void *arg, struct error *err)
{
	bool is_made = mkdirat(*dir, name, 0700) == 0;
	int fd;

	if (!is_made && errno != EEXIST)
		return error_errno(err, errno, "make '%.160s'", path);
	fd = open_path_folder(*dir, name, is_made);
	if (fd < 0)
		return error_errno(err, -fd, "open '%.160s'", path);
	(void)close(*dir);
	*dir = fd;
	return is_made ? fn(arg, fd, path, err) : 0;
}

int make_target(const char *path, made_folder_fn *fn, void *arg,
		struct error *err)
{
	AUTO_FREE char *p = strdup(path);
	AUTO_CLOSE int dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int rc = p ? 0 : error_nomem(err);

	if (rc == 0 && dir < 0)
		rc = error_errno(err, errno, "open '/'");
	for (char *name = p ? p + 1 : NULL; rc == 0 && name;) {
		char *end = strchr(name, '/');

		if (end)
			*end = '\0';
		rc = enter_or_make(&dir, name, p, fn, arg, err);
		if (end)
			*end = '/';
		name = end ? end + 1 : NULL;
	}
	return rc;
}
