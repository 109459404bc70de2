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

/* A child that leads a process group is killed with all in it; no other has its number while the
 * child is not waited for. */
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
	/* core(5) has a core piped to a program whatever the limit is.  The kernel heeds 1 all
	 * the same: it is what that program itself runs with, so that it has none. */
	const struct rlimit least = { 1, 1 };

	return setrlimit(RLIMIT_CORE, &least) < 0
		       ? error_errno(err, errno, "setrlimit")
		       : 0;
}
