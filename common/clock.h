// SPDX-License-Identifier: Apache-2.0
/* The clock that deadlines and durations are of: CLOCK_MONOTONIC. */
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

/* Since 1970, as files are dated. */
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

/* As pthread_cond_timedwait() and the like want it. */
static inline struct timespec clock_timespec(int64_t at_ns)
{
	return (struct timespec){ .tv_sec = at_ns / NS_PER_S,
				  .tv_nsec = at_ns % NS_PER_S };
}

#endif
