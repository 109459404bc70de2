// SPDX-License-Identifier: Apache-2.0
/* A question to a file system that may never answer. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/mount.h"

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

int mount_ask(const char *path, int64_t wait_ms)
{
	int p[2], code;
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0)
		ask(p[1], path);
	(void)close(p[1]);
	code = pid < 0 ? -1 : read_in_time(p[0], wait_ms);
	(void)close(p[0]);
	if (pid < 0)
		return -1;
	if (code < 0)
		(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, code < 0 ? WNOHANG : 0);
	return code;
}
