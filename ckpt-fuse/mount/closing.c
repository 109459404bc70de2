// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/closing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/log.h"

/* Bytes read of a file in /proc: the needed values are near its begin. */
#define TEXT_MAX 2047u
/* Fields of /proc/PID/stat, counted after the name: the flags, with the kernel's PF_SIGNALED, and
 * the exit status as in wait(2). */
#define FLAGS_FIELD 7
#define STATUS_FIELD 50
#define KILLED_FLAG 0x400u
#define SIGNAL_MASK 0x7fu

struct proc_text {
	char s[TEXT_MAX + 1];
};

static bool is_short_of_descriptors(void)
{
	return errno == EMFILE || errno == ENFILE;
}

/* Read a file of a thread in /proc. False: there is none; or no free descriptor, which sets
 * `is_unread`. */
static bool read_text(pid_t thread, const char *what, struct proc_text *ret,
		      bool *is_unread)
{
	char path[64];
	ssize_t n = -1;
	int fd = -1;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)thread, what);
	if (thread > 0)
		fd = open(path, O_RDONLY | O_CLOEXEC);
	if (thread > 0 && fd < 0)
		*is_unread |= is_short_of_descriptors();
	if (fd >= 0) {
		n = read(fd, ret->s, TEXT_MAX);
		(void)close(fd);
	}
	ret->s[n > 0 ? n : 0] = '\0';
	return n > 0;
}

static unsigned long number_field(const char *p, int i)
{
	for (; p && i > 0; i--)
		p = strchr(p + 1, ' ');
	return p ? strtoul(p, NULL, 10) : 0;
}

/* May this process read the thread's exit status, which otherwise reads as 0? The kernel applies
 * the same check to another file of /proc, which is tried here. */
static bool can_read_exit_status(pid_t thread)
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

static pid_t read_group(pid_t thread, bool *is_unread)
{
	static const char key[] = "\nTgid:";
	struct proc_text text;
	const char *p;

	if (!read_text(thread, "status", &text, is_unread))
		return 0;
	p = strstr(text.s, key);
	return p ? (pid_t)strtol(p + sizeof(key) - 1, NULL, 10) : 0;
}

struct closer closing_look(pid_t thread)
{
	struct closer c = { .thread = thread };
	struct proc_text text;
	const char *p;

	c.group = read_group(thread, &c.is_unread);
	if (!read_text(thread, "stat", &text, &c.is_unread))
		return c;
	/* Search the last parenthesis: the name may contain parentheses and blanks. */
	p = strrchr(text.s, ')');
	/* When a process exits, the kernel ends its other threads as if they were killed, so the
	 * flag alone is not enough. */
	c.is_killed = (number_field(p, FLAGS_FIELD) & KILLED_FLAG) &&
		      ((number_field(p, STATUS_FIELD) & SIGNAL_MASK) ||
		       !can_read_exit_status(thread));
	return c;
}

void closing_name(pid_t thread, char ret[CLOSING_NAME_MAX])
{
	struct proc_text text;
	bool is_unread = false;

	if (!read_text(thread, "comm", &text, &is_unread))
		(void)strcpy(text.s, "?");
	text.s[strcspn(text.s, "\n")] = '\0';
	(void)snprintf(ret, CLOSING_NAME_MAX, "%.31s", text.s);
}

/* Is the descriptor a file of this device? Uses only data that the kernel has, so that this mount
 * gets no request. If the kernel has none, the file may be of this mount: true. */
static bool is_of_device(int dir, const char *fd, dev_t dev)
{
	struct statx st;

	if (!dev || statx(dir, fd, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT,
			  STATX_INO, &st) < 0)
		return true;
	return makedev(st.stx_dev_major, st.stx_dev_minor) == dev;
}

static bool is_writer_of(struct closer *c, const char *fd, uint64_t ino)
{
	struct proc_text text;
	char what[32];
	const char *flags, *inode;

	(void)snprintf(what, sizeof(what), "fdinfo/%.20s", fd);
	if (!read_text(c->thread, what, &text, &c->is_unread))
		return false;
	flags = strstr(text.s, "flags:");
	inode = strstr(text.s, "ino:");
	return flags && inode &&
	       (strtoul(flags + 6, NULL, 8) & O_ACCMODE) != O_RDONLY &&
	       strtoull(inode + 4, NULL, 10) == ino;
}

unsigned int closing_count_open(struct closer *c, dev_t dev, uint64_t ino)
{
	char path[32];
	struct dirent *e;
	unsigned int n = 0;
	DIR *d;

	(void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)c->thread);
	d = c->group > 0 ? opendir(path) : NULL;
	if (c->group > 0 && !d)
		c->is_unread |= is_short_of_descriptors();
	while (d && (e = readdir(d)))
		n += *e->d_name != '.' && is_writer_of(c, e->d_name, ino) &&
		     is_of_device(dirfd(d), e->d_name, dev);
	if (d)
		(void)closedir(d);
	return n;
}
