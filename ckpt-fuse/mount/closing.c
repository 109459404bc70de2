// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/closing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/log.h"

/* Of a file of /proc this much is read: what is asked for is near the beginning. */
#define TEXT_MAX 2047u
/* In /proc/PID/stat, behind the name: the parent, what has the kernel's PF_SIGNALED, and the
 * status as wait(2) gives it. */
#define PARENT_FIELD 2
#define FLAGS_FIELD 7
#define STATUS_FIELD 50
#define KILLED_FLAG 0x400u
#define SIGNAL_MASK 0x7fu

struct proc_text {
	char s[TEXT_MAX + 1];
};

/* False: there is none. */
static bool read_text(pid_t thread, const char *what, struct proc_text *ret)
{
	char path[64];
	ssize_t n = -1;
	int fd = -1;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)thread, what);
	if (thread > 0)
		fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, ret->s, TEXT_MAX);
		(void)close(fd);
	}
	ret->s[n > 0 ? n : 0] = '\0';
	return n > 0;
}

static unsigned long field(const char *p, int i)
{
	for (; p && i > 0; i--)
		p = strchr(p + 1, ' ');
	return p ? strtoul(p, NULL, 10) : 0;
}

/* May its status be read, or is it 0 to us?  The kernel asks the same of both. */
static bool may_look(pid_t thread)
{
	static atomic_bool was_told;
	char path[32], target[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)thread);
	if (readlink(path, target, sizeof(target)) >= 0 || errno != EACCES)
		return true;
	if (!atomic_exchange(&was_told, true))
		log_warning("ckpt", "it is not seen how programs end, so that "
				    "what those of many threads have open when "
				    "they exit is not stored: give the mount "
				    "CAP_SYS_PTRACE");
	return false;
}

struct closer closing_look(pid_t thread)
{
	struct closer c = { .thread = thread, .group = closing_group(thread) };
	struct proc_text text;
	const char *p;

	if (!read_text(thread, "stat", &text))
		return c;
	/* The name may hold anything, parentheses and blanks, too. */
	p = strrchr(text.s, ')');
	c.parent = (pid_t)field(p, PARENT_FIELD);
	/* Of a process that exits the kernel ends all other threads as if they were killed. */
	c.is_killed =
		(field(p, FLAGS_FIELD) & KILLED_FLAG) &&
		((field(p, STATUS_FIELD) & SIGNAL_MASK) || !may_look(thread));
	return c;
}

void closing_name(pid_t thread, char ret[CLOSING_NAME_MAX])
{
	struct proc_text text;

	if (!read_text(thread, "comm", &text))
		(void)strcpy(text.s, "?");
	text.s[strcspn(text.s, "\n")] = '\0';
	(void)snprintf(ret, CLOSING_NAME_MAX, "%.31s", text.s);
}

pid_t closing_group(pid_t thread)
{
	static const char key[] = "\nTgid:";
	struct proc_text text;
	const char *p;

	if (!read_text(thread, "status", &text))
		return 0;
	p = strstr(text.s, key);
	return p ? (pid_t)strtol(p + sizeof(key) - 1, NULL, 10) : 0;
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

/* By what the kernel knows: nothing is asked of us for that, either.  Where it does not say, it
 * may be of this mount. */
static bool is_of_device(int dir, const char *fd, dev_t dev)
{
	struct statx st;

	if (!dev || statx(dir, fd, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT,
			  STATX_INO, &st) < 0)
		return true;
	return makedev(st.stx_dev_major, st.stx_dev_minor) == dev;
}

static bool is_writer_of(pid_t thread, const char *fd, uint64_t ino)
{
	struct proc_text text;
	char what[32];
	const char *flags, *inode;

	(void)snprintf(what, sizeof(what), "fdinfo/%.20s", fd);
	if (!read_text(thread, what, &text))
		return false;
	flags = strstr(text.s, "flags:");
	inode = strstr(text.s, "ino:");
	return flags && inode &&
	       (strtoul(flags + 6, NULL, 8) & O_ACCMODE) != O_RDONLY &&
	       strtoull(inode + 4, NULL, 10) == ino;
}

bool closing_has_open(pid_t thread, dev_t dev, uint64_t ino, const char *name)
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
		      is_of_device(dirfd(d), e->d_name, dev) &&
		      is_writer_of(thread, e->d_name, ino);
	if (d)
		(void)closedir(d);
	return has;
}
