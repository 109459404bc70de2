// SPDX-License-Identifier: Apache-2.0
#include "common/process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "common/cleanup.h"
#include "common/clock.h"

/* Kill the child and the process group that it may lead.  No other process can have the number
 * before the child is waited for. */
static void kill_child(pid_t pid)
{
	(void)kill(-pid, SIGKILL);
	(void)kill(pid, SIGKILL);
}

int process_reap(pid_t pid, int64_t timeout_ms, int rc, int *status,
		 struct error *err)
{
	int64_t end = clock_now_ms() + timeout_ms;
	AUTO_CLOSE int fd = pidfd_open(pid, 0);
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (rc == 0 && fd < 0)
		rc = error_errno(err, errno, "wait for it");
	while (rc == 0) {
		int64_t left = end - clock_now_ms();
		int n = poll(&p, 1, left > 0 ? (int)left : 0);

		if (n > 0)
			break;
		if (n == 0)
			rc = error_set(err, ETIMEDOUT, "it does not end");
	}
	if (rc < 0)
		kill_child(pid);
	while (waitpid(pid, status, 0) < 0 && errno == EINTR)
		;
	return rc;
}

int process_forbid_core(struct error *err)
{
	/* A core piped to a program (core(5)) ignores a limit of 0.  The kernel does honour 1: the
	 * piped program itself runs with that limit, so that its own crash causes no core. */
	const struct rlimit least = { 1, 1 };

	return setrlimit(RLIMIT_CORE, &least) < 0
		       ? error_errno(err, errno, "setrlimit")
		       : 0;
}
