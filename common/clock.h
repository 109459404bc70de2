// SPDX-License-Identifier: Apache-2.0
/* CLOCK_MONOTONIC, which all deadlines and durations use, and the wall clock. */
#ifndef BOOTSEER_COMMON_CLOCK_H
#define BOOTSEER_COMMON_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_US INT64_C(1000)
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

static inline int64_t clock_now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

static inline int64_t clock_now_ms(void)
{
	return clock_now_ns() / NS_PER_MS;
}

/* Wall-clock time since 1970, as in the dates of files. */
static inline int64_t clock_wall_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

static inline int64_t clock_wall_ms(void)
{
	return clock_wall_ns() / NS_PER_MS;
}

/* n * unit + more, of times that come from outside (files, stores).  A result that 64 bits cannot
 * hold becomes the smallest or largest value; in nanoseconds they hold the years 1677 to 2262. */
static inline int64_t clock_scale(int64_t n, int64_t unit, int64_t more)
{
	int64_t t;

	if (__builtin_mul_overflow(n, unit, &t) ||
	    __builtin_add_overflow(t, more, &t))
		return n < 0 ? INT64_MIN : INT64_MAX;
	return t;
}

static inline int64_t clock_ns_of(struct timespec t)
{
	return clock_scale(t.tv_sec, NS_PER_S, t.tv_nsec);
}

static inline double clock_seconds(int64_t ns)
{
	return (double)ns / 1e9;
}

/* The time as pthread_cond_timedwait() and similar calls want it; also right before 1970. */
static inline struct timespec clock_timespec(int64_t at_ns)
{
	const int64_t ns = at_ns % NS_PER_S;

	return (struct timespec){ .tv_sec = at_ns / NS_PER_S - (ns < 0),
				  .tv_nsec = ns < 0 ? ns + NS_PER_S : ns };
}

#endif
