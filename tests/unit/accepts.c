// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/accepts.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

atomic_int accepts_starved;
static struct rlimit before;

/* The linker's names for a call that is wrapped. */
int __real_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);

int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	int got = __real_accept4(fd, addr, len, flags);

	if (got < 0 && errno == EMFILE)
		atomic_fetch_add(&accepts_starved, 1);
	return got;
}

void accepts_starve(void)
{
	int next = dup(STDERR_FILENO);
	struct rlimit now;

	cr_assert_geq(next, 0);
	close(next);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	now = before;
	now.rlim_cur = (rlim_t)next;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &now), 0);
}

void accepts_feed(void)
{
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
}
