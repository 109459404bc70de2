// SPDX-License-Identifier: Apache-2.0
/* statfs(2) on a file system that may never answer. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/mount.h"

#define ANSWER_FD 3

/* Runs in the process that makes the call, which keeps no other descriptor.  An alarm ends it, as
 * its parent stops waiting after a while. */
static void statfs_path(int fd, const char *path, int64_t wait_ms)
{
	struct statfs st;
	sigset_t none;
	int code;

	(void)signal(SIGALRM, SIG_DFL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)alarm((unsigned)(wait_ms / 1000) + 1);
	if (fd != ANSWER_FD)
		(void)dup2(fd, ANSWER_FD);
	(void)close_range(ANSWER_FD + 1, ~0U, 0);
	code = statfs(path, &st) < 0 ? errno : 0;
	_exit(write(ANSWER_FD, &code, sizeof(code)) == sizeof(code) ? 0 : 1);
}

/* Read the result from the pipe; -1: none came in time. */
static int read_in_time(int fd, int64_t wait_ms)
{
	const int64_t end_ns = clock_now_ns() + wait_ms * NS_PER_MS;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int64_t left_ns = wait_ms * NS_PER_MS;
	int code, rc;

	do {
		rc = poll(&p, 1, (int)(left_ns / NS_PER_MS));
		left_ns = end_ns - clock_now_ns();
	} while (rc < 0 && errno == EINTR && left_ns > 0);
	if (rc <= 0 || read(fd, &code, sizeof(code)) != sizeof(code))
		return -1;
	return code;
}

/* The first child ends at once, so that process 1 adopts the grandchild that makes the call, and
 * reaps it even if it hangs long after we stopped waiting. */
static pid_t fork_statfs(int fd, const char *path, int64_t wait_ms)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	pid = fork();
	if (pid == 0)
		statfs_path(fd, path, wait_ms);
	/* Not _exit(): TSan checks there for unjoined threads, and would report the parent's
	 * threads, which fork() did not copy. */
	(void)syscall(SYS_exit_group, pid < 0);
	__builtin_unreachable();
}

int mount_ask(const char *path, int64_t wait_ms)
{
	int p[2], code;
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return -1;
	pid = fork_statfs(p[1], path, wait_ms);
	(void)close(p[1]);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		continue;
	code = pid < 0 ? -1 : read_in_time(p[0], wait_ms);
	(void)close(p[0]);
	return code;
}
