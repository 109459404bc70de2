// SPDX-License-Identifier: Apache-2.0
#include "objects/file/file_path.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"

#define RESOLVE (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS)

static int open_folder(const struct file_store *f, const char *folder,
		       uint64_t flags)
{
	return fs_openat2(f->root, folder, flags | O_DIRECTORY, RESOLVE);
}

int file_path_open_folder(const struct file_store *f, const char *folder)
{
	return open_folder(f, folder, O_RDONLY);
}

int file_path_enter(const struct file_store *f, const char *folder)
{
	return open_folder(f, folder, O_PATH);
}

/* Open the folder that holds `name`; `*ret_leaf` is the last part of the name. */
static int open_parent(const struct file_store *f, const char *name,
		       const char **ret_leaf)
{
	const char *slash = strrchr(name, '/');
	AUTO_FREE char *folder =
		slash ? strndup(name, (size_t)(slash - name)) : strdup(".");

	*ret_leaf = slash ? slash + 1 : name;
	return folder ? open_folder(f, folder, O_PATH) : -1;
}

int file_path_open(const struct file_store *f, const char *name, int flags,
		   mode_t mode)
{
	const char *leaf;
	AUTO_CLOSE int folder = open_parent(f, name, &leaf);

	return folder < 0 ? -1
			  : openat(folder, leaf, flags | O_NOFOLLOW | O_CLOEXEC,
				   mode);
}

int file_path_stat(const struct file_store *f, const char *name,
		   struct stat *ret)
{
	const char *leaf;
	AUTO_CLOSE int folder = open_parent(f, name, &leaf);

	return folder < 0 ? -1
			  : fstatat(folder, leaf, ret, AT_SYMLINK_NOFOLLOW);
}

int file_path_mkdir(const struct file_store *f, const char *name, mode_t mode)
{
	const char *leaf;
	AUTO_CLOSE int folder = open_parent(f, name, &leaf);

	return folder < 0 ? -1 : mkdirat(folder, leaf, mode);
}

int file_path_unlink(const struct file_store *f, const char *name, int flags)
{
	const char *leaf;
	AUTO_CLOSE int folder = open_parent(f, name, &leaf);

	return folder < 0 ? -1 : unlinkat(folder, leaf, flags);
}

int file_path_rename(const struct file_store *f, const char *from,
		     const char *to, unsigned int flags)
{
	const char *old = "", *new = "";
	AUTO_CLOSE int a = open_parent(f, from, &old);
	AUTO_CLOSE int b = a < 0 ? -1 : open_parent(f, to, &new);

	if (a < 0 || b < 0)
		return -1;
	return flags ? renameat2(a, old, b, new, flags)
		     : renameat(a, old, b, new);
}

int file_path_link(const struct file_store *f, const char *from, const char *to)
{
	const char *old = "", *new = "";
	AUTO_CLOSE int a = open_parent(f, from, &old);
	AUTO_CLOSE int b = a < 0 ? -1 : open_parent(f, to, &new);

	return a < 0 || b < 0 ? -1 : linkat(a, old, b, new, 0);
}
