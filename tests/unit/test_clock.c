// SPDX-License-Identifier: Apache-2.0
/* Any thread may read the clock; the test's thread sets it. */
#include "tests/unit/test_clock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"

static _Atomic int64_t held_at; /* 0: it runs */
static _Atomic int64_t behind;  /* the machine's, when it runs */

static int64_t machine_now(void)
{
	struct timespec t;

	(void)syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

static int64_t test_now(void)
{
	int64_t held = atomic_load(&held_at);

	return held ? held : machine_now() - atomic_load(&behind);
}

void test_clock_hold(void)
{
	atomic_store(&held_at, test_now());
}

void test_clock_step(int64_t ns)
{
	atomic_store(&held_at, test_now() + ns);
}

void test_clock_run(void)
{
	atomic_store(&behind, machine_now() - test_now());
	atomic_store(&held_at, 0);
}

/* Hidden, so that it is this program's alone and not that of its libraries. */
__attribute__((visibility("hidden"))) int clock_gettime(clockid_t clock,
							struct timespec *ret)
{
	int64_t now;

	if (clock != CLOCK_MONOTONIC)
		return (int)syscall(SYS_clock_gettime, clock, ret);
	now = test_now();
	*ret = (struct timespec){ .tv_sec = now / NS_PER_S,
				  .tv_nsec = now % NS_PER_S };
	return 0;
}
