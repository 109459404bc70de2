// SPDX-License-Identifier: Apache-2.0
#include "cli/env_smoke.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"

static void smoke_main(const char *command, pid_t parent)
{
	sigset_t none;
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Its own process group, so that it can be killed with all that it starts. */
	if (getppid() != parent || setpgid(0, 0) < 0 || dup2(fd, 0) < 0 ||
	    dup2(fd, 1) < 0)
		_exit(126);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(127);
}

/* Judge the test's result.  Unless it ran and failed here, nothing is known about the snapshot. */
static int judge_status(int status, struct error *err)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (WIFEXITED(status) &&
	    (WEXITSTATUS(status) == 126 || WEXITSTATUS(status) == 127))
		return error_set(err, ENOEXEC,
				 "the --verify command cannot be run here (%d)",
				 WEXITSTATUS(status));
	return WIFEXITED(status)
		       ? error_set(err, ECANCELED,
				   "the --verify command failed with %d",
				   WEXITSTATUS(status))
		       : error_set(err, ECANCELED,
				   "the --verify command died of signal %d",
				   WTERMSIG(status));
}

/* Wait for the test's end.  False: the deadline passed. */
static bool wait_for_end(int fd, int64_t deadline_ns)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n;

	do {
		int64_t left = (deadline_ns - clock_now_ns()) / NS_PER_MS;

		n = poll(&p, 1, left > 0 ? (int)left : 0);
	} while (n < 0 && errno == EINTR);
	return n > 0;
}

int env_smoke_run(const char *command, int64_t deadline_ns, struct error *err)
{
	pid_t parent = getpid(), pid;
	AUTO_CLOSE int fd = -1;
	bool is_late;
	int status;

	(void)fflush(NULL);
	pid = fork();
	if (pid == 0)
		smoke_main(command, parent);
	if (pid > 0)
		fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pid < 0 || fd < 0) {
		int code = errno;

		if (pid > 0) {
			(void)kill(pid, SIGKILL);
			(void)waitpid(pid, NULL, 0);
		}
		return error_errno(err, code, "start the --verify command");
	}
	is_late = !wait_for_end(fd, deadline_ns);
	if (is_late) {
		(void)kill(-pid, SIGKILL);
		(void)kill(pid, SIGKILL);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return is_late ? error_set(err, ECANCELED,
				   "the --verify command does not end")
		       : judge_status(status, err);
}

int env_smoke_is_good(struct env_restore_check *base, struct error *err)
{
	const struct env_smoke_check *c =
		container_of(base, struct env_smoke_check, base);
	int rc = env_smoke_run(c->command, clock_now_ns() + c->timeout_ns, err);

	base->is_bad = rc == -ECANCELED;
	return rc;
}
