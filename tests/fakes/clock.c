// SPDX-License-Identifier: Apache-2.0
/*
 * A monotonic clock that a test owns, for a program as it is shipped:
 *
 *	LD_PRELOAD=.../test-clock.so TEST_CLOCK=FILE program
 *
 * FILE holds a number of nanoseconds.  The program's monotonic clock is that much
 * past the time at which the program started, and stands still otherwise, so what
 * expires by it expires when the test writes another number (by rename, so that
 * nobody reads half of one), and at no other time.  Times of day are not touched.
 *
 * The kernel waits by its own clock.  A wait for a duration (epoll, timerfd) takes
 * that long, and the program then finds that no time has passed; a wait until a
 * time of the test's clock is made one that takes as long by the kernel's, and one
 * on a condition ends within LOOK_NS when the test's clock gets there first.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "next.h"

#define NS_PER_S INT64_C(1000000000)
#define LOOK_NS (NS_PER_S / 10)
/* A deadline by the time of day is after 2001; no machine is up that long. */
#define WALL_S 1000000000

typedef int clock_fn(clockid_t, struct timespec *);
typedef int timedwait_fn(pthread_cond_t *, pthread_mutex_t *,
			 const struct timespec *);

typedef int nanosleep_fn(clockid_t, int, const struct timespec *,
			 struct timespec *);

static clock_fn *real_clock;
static timedwait_fn *real_timedwait;
static nanosleep_fn *real_nanosleep;
static int64_t started;

static int64_t in_ns(const struct timespec *t)
{
	return t->tv_sec * NS_PER_S + t->tv_nsec;
}

static int64_t real_now(void)
{
	struct timespec t;

	if (!real_clock)
		*(void **)&real_clock = next("clock_gettime");
	if (real_clock(CLOCK_MONOTONIC, &t) < 0)
		abort();
	return in_ns(&t);
}

/* A test whose clock cannot be read must not go on by the machine's.  System calls as such:
 * a sanitizer's allocator asks for the time with its lock held, and allocates in its own
 * open(). */
static int64_t passed(void)
{
	const char *path = getenv("TEST_CLOCK");
	long fd = path ? syscall(SYS_openat, AT_FDCWD, path,
				 O_RDONLY | O_CLOEXEC, 0)
		       : -1;
	char text[32] = "";

	if (fd < 0 || syscall(SYS_read, fd, text, sizeof(text) - 1) <= 0)
		abort();
	(void)syscall(SYS_close, fd);
	return strtoll(text, NULL, 10);
}

static int64_t test_now(void)
{
	return started + passed();
}

__attribute__((constructor)) static void start(void)
{
	started = real_now();
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	int64_t now = real_now();

	switch (clock) {
	case CLOCK_MONOTONIC:
	case CLOCK_MONOTONIC_RAW:
	case CLOCK_MONOTONIC_COARSE:
	case CLOCK_BOOTTIME:
		if (started)
			now = test_now();
		*ret = (struct timespec){ .tv_sec = now / NS_PER_S,
					  .tv_nsec = now % NS_PER_S };
		return 0;
	default:
		return real_clock(clock, ret);
	}
}

static struct timespec to_timespec(int64_t ns)
{
	return (struct timespec){ .tv_sec = ns / NS_PER_S,
				  .tv_nsec = ns % NS_PER_S };
}

/* By the kernel's clock what is by the test's. */
static struct timespec to_real(const struct timespec *t)
{
	return to_timespec(in_ns(t) - test_now() + real_now());
}

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
			   const struct timespec *until)
{
	struct timespec t;
	int64_t at, look;
	int rc;

	if (!real_timedwait)
		*(void **)&real_timedwait = next("pthread_cond_timedwait");
	if (until->tv_sec >= WALL_S)
		return real_timedwait(cond, lock, until);
	t = to_real(until);
	at = in_ns(&t);
	do {
		look = real_now() + LOOK_NS;
		t = to_timespec(look < at ? look : at);
		rc = real_timedwait(cond, lock, &t);
	} while (rc == ETIMEDOUT && look < at && test_now() < in_ns(until));
	return rc;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until,
		    struct timespec *left)
{
	struct timespec t = *until;

	if (!real_nanosleep)
		*(void **)&real_nanosleep = next("clock_nanosleep");
	if (flags & TIMER_ABSTIME && t.tv_sec < WALL_S)
		t = to_real(until);
	return real_nanosleep(clock, flags, &t, left);
}
