// SPDX-License-Identifier: Apache-2.0
/* Is a mount still at its path that the kernel has ended? */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/mount.h"
#include "fuse/session_priv.h"

/* An aborted mount says so at once. */
#define ANSWER_MS 5000
#define ANSWER_FD 3

/* In the child, which has no other descriptor of ours. */
static void ask(int fd, const char *path)
{
	struct statfs st;
	int code;

	if (fd != ANSWER_FD)
		(void)dup2(fd, ANSWER_FD);
	(void)close_range(ANSWER_FD + 1, ~0U, 0);
	code = statfs(path, &st) < 0 ? errno : 0;
	_exit(write(ANSWER_FD, &code, sizeof(code)) == sizeof(code) ? 0 : 1);
}

/* -1: no answer. */
static int read_in_time(int fd)
{
	const int64_t end_ns = clock_now_ns() + ANSWER_MS * NS_PER_MS;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int64_t left_ns = ANSWER_MS * NS_PER_MS;
	int code, rc;

	do {
		rc = poll(&p, 1, (int)(left_ns / NS_PER_MS));
		left_ns = end_ns - clock_now_ns();
	} while (rc < 0 && errno == EINTR && left_ns > 0);
	if (rc <= 0 || read(fd, &code, sizeof(code)) != sizeof(code))
		return -1;
	return code;
}

/* What statfs(2) says of it; -1: nothing, in time.  What is mounted there may hang, and
 * the child with it. */
static int ask_in_time(const char *path)
{
	int p[2], code;
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0)
		ask(p[1], path);
	(void)close(p[1]);
	code = pid < 0 ? -1 : read_in_time(p[0]);
	(void)close(p[0]);
	if (pid < 0)
		return -1;
	if (code < 0)
		(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, code < 0 ? WNOHANG : 0);
	return code;
}

/* One that was unmounted may have given its number to the next one there, which answers,
 * or does not. */
bool session_is_aborted(const struct session *s)
{
	struct mount_line line = { .major = 0 };
	struct error err = ERROR_INIT;
	bool is_there;

	if (mount_find(s->path, &line, &err) != 1)
		return false;
	is_there = s->dev == makedev(line.major, line.minor);
	mount_line_fini(&line);
	return is_there && ask_in_time(s->path) == ENOTCONN;
}
