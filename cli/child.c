// SPDX-License-Identifier: Apache-2.0
#include "cli/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"

#define READ_SIZE 4096u

static int set_attributes(posix_spawnattr_t *a)
{
	sigset_t none, pipe;
	int rc;

	(void)sigemptyset(&none);
	(void)sigemptyset(&pipe);
	(void)sigaddset(&pipe, SIGPIPE);
	rc = posix_spawnattr_setsigmask(a, &none);
	if (rc == 0)
		rc = posix_spawnattr_setsigdefault(a, &pipe);
	if (rc == 0)
		rc = posix_spawnattr_setpgroup(a, 0);
	if (rc == 0)
		rc = posix_spawnattr_setflags(a, POSIX_SPAWN_SETSIGMASK |
							 POSIX_SPAWN_SETSIGDEF |
							 POSIX_SPAWN_SETPGROUP);
	return rc;
}

static int set_files(posix_spawn_file_actions_t *f, int in, int out, int errors)
{
	int rc = in < 0 ? posix_spawn_file_actions_addopen(f, 0, "/dev/null",
							   O_RDONLY, 0)
			: posix_spawn_file_actions_adddup2(f, in, 0);

	if (rc == 0)
		rc = posix_spawn_file_actions_adddup2(f, out, 1);
	if (rc == 0)
		rc = posix_spawn_file_actions_adddup2(f, errors, 2);
	return rc;
}

int child_start_with(char *const argv[], int in, int out, int errors,
		     pid_t *ret, struct error *err)
{
	extern char **environ;
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	int rc;

	if (posix_spawn_file_actions_init(&files) != 0)
		return error_nomem(err);
	if (posix_spawnattr_init(&attributes) != 0) {
		(void)posix_spawn_file_actions_destroy(&files);
		return error_nomem(err);
	}
	rc = set_files(&files, in, out, errors);
	if (rc == 0)
		rc = set_attributes(&attributes);
	if (rc == 0)
		rc = posix_spawnp(ret, argv[0], &files, &attributes, argv,
				  environ);
	(void)posix_spawnattr_destroy(&attributes);
	(void)posix_spawn_file_actions_destroy(&files);
	return rc ? error_set(err, rc, "run %s: %s%s", argv[0], strerror(rc),
			      rc == ENOENT ? ": install it, or mend PATH" : "")
		  : 0;
}

int child_start(char *const argv[], int out, int errors, pid_t *ret,
		struct error *err)
{
	return child_start_with(argv, -1, out, errors, ret, err);
}

/* Take what is in the pipe now. */
static void drain(int fd, struct buf *ret)
{
	char some[READ_SIZE];
	ssize_t n;

	while ((n = read(fd, some, sizeof(some))) > 0)
		(void)!buf_append(ret, some, (size_t)n);
}

/* Until the process behind `pidfd` has ended; -ETIMEDOUT. */
static int follow(int pidfd, int in, int64_t deadline, struct buf *ret)
{
	struct pollfd p[] = { { .fd = pidfd, .events = POLLIN },
			      { .fd = in, .events = POLLIN } };

	for (;;) {
		int64_t left = deadline - clock_now_ms();
		int n = left > 0 ? poll(p, 2, (int)left) : 0;

		if (n == 0)
			return -ETIMEDOUT;
		if (n < 0)
			continue; /* a signal */
		drain(in, ret);
		if (p[1].revents & POLLHUP)
			p[1].fd = -1; /* it printed all and goes on */
		if (p[0].revents)
			return 0;
	}
}

int child_capture_with(char *const argv[], int stdin_fd, int stdout_fd,
		       int64_t timeout_ms, struct buf *ret, int *ret_status,
		       struct error *err)
{
	int64_t deadline = clock_now_ms() + timeout_ms;
	AUTO_CLOSE int in = -1;
	AUTO_CLOSE int out = -1;
	AUTO_CLOSE int pidfd = -1;
	int ends[2], status = 0, rc;
	pid_t pid = -1;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_set(err, errno, "pipe: %s", strerror(errno));
	in = ends[0];
	out = ends[1];
	if (fcntl(in, F_SETFL, O_NONBLOCK) < 0)
		return error_set(err, errno, "pipe: %s", strerror(errno));
	rc = child_start_with(argv, stdin_fd, stdout_fd < 0 ? out : stdout_fd,
			      out, &pid, err);
	if (rc < 0)
		return rc;
	(void)close(steal_fd(&out));
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	rc = pidfd < 0 ? -errno : follow(pidfd, in, deadline, ret);
	if (rc < 0) /* with all that it started */
		(void)kill(-pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	drain(in, ret);
	if (rc < 0)
		return error_set(err, -rc, "%s: %s", argv[0],
				 rc == -ETIMEDOUT ? "did not end in time"
						  : strerror(-rc));
	*ret_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status)
					  : WEXITSTATUS(status);
	return 0;
}

int child_capture(char *const argv[], int64_t timeout_ms, struct buf *ret,
		  int *ret_status, struct error *err)
{
	return child_capture_with(argv, -1, -1, timeout_ms, ret, ret_status,
				  err);
}
