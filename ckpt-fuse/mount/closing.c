// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/closing.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"

#define TEXT_MAX 4096u
/* In /proc/PID/stat: what the kernel's PF_SIGNALED is. */
#define KILLED_FLAG 0x400u
#define FLAGS_FIELD 7 /* behind the name */

bool closing_is_killed(pid_t thread)
{
	AUTO_BUF text = BUF_INIT;
	char path[32], *p;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)thread);
	if (thread <= 0 || fs_read_file(path, TEXT_MAX, &text, NULL) < 0 ||
	    !text.data)
		return false;
	/* The name may hold anything, parentheses and blanks, too. */
	p = strrchr(text.data, ')');
	for (int i = 0; p && i < FLAGS_FIELD; i++)
		p = strchr(p + 1, ' ');
	return p && (strtoul(p, NULL, 10) & KILLED_FLAG);
}

/* The path is the kernel's, of whatever mount namespace; nothing is asked of us for
 * it. */
static bool has_name(int dir, const char *fd, const char *name)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(dir, fd, target, sizeof(target) - 1);
	const char *last;

	if (n < 0)
		return false;
	target[n] = '\0';
	last = strrchr(target, '/');
	return last && strncmp(last + 1, name, strlen(name)) == 0;
}

static bool is_writer_of(pid_t thread, const char *fd, uint64_t ino)
{
	AUTO_BUF text = BUF_INIT;
	char path[64];
	const char *flags, *inode;

	(void)snprintf(path, sizeof(path), "/proc/%d/fdinfo/%.20s", (int)thread,
		       fd);
	if (fs_read_file(path, TEXT_MAX, &text, NULL) < 0 || !text.data)
		return false;
	flags = strstr(text.data, "flags:");
	inode = strstr(text.data, "ino:");
	return flags && inode &&
	       (strtoul(flags + 6, NULL, 8) & O_ACCMODE) != O_RDONLY &&
	       strtoull(inode + 4, NULL, 10) == ino;
}

bool closing_has_open(pid_t thread, uint64_t ino, const char *name)
{
	char path[32];
	struct dirent *e;
	bool has = false;
	DIR *d;

	(void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)thread);
	d = thread > 0 ? opendir(path) : NULL;
	while (d && !has && (e = readdir(d)))
		has = *e->d_name != '.' &&
		      has_name(dirfd(d), e->d_name, name) &&
		      is_writer_of(thread, e->d_name, ino);
	if (d)
		(void)closedir(d);
	return has;
}
