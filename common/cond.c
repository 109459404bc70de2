// SPDX-License-Identifier: Apache-2.0
#include "common/cond.h"

#include "common/clock.h"

void cond_init(pthread_cond_t *c)
{
	pthread_condattr_t monotonic;

	(void)pthread_condattr_init(&monotonic);
	(void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	(void)pthread_cond_init(c, &monotonic);
	(void)pthread_condattr_destroy(&monotonic);
}

bool cond_wait_until(pthread_cond_t *c, pthread_mutex_t *lock, int64_t at_ns)
{
	const struct timespec at = clock_timespec(at_ns);

	return pthread_cond_timedwait(c, lock, &at) == 0;
}
