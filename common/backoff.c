// SPDX-License-Identifier: Apache-2.0
#include "common/backoff.h"

#include <errno.h>
#include <sys/random.h>
#include <time.h>

#include "common/clock.h"

/* a stop that the pace asks for is noticed within this time */
#define STOP_NS (50 * NS_PER_MS)

int64_t backoff_ns(const struct backoff *b, unsigned int n, uint64_t least_ms)
{
	uint64_t ms = b->first_ms;
	uint32_t chance = 0;

	while (n-- > 1 && ms < b->most_ms)
		ms *= 2;
	if (ms > b->most_ms)
		ms = b->most_ms;
	(void)!getrandom(&chance, sizeof(chance), GRND_NONBLOCK);
	ms = ms / 2 + chance % (ms / 2 + 1);
	if (ms < least_ms)
		ms = least_ms + chance % (b->first_ms + 1);
	return (int64_t)ms * NS_PER_MS;
}

int backoff_wait(int64_t until_ns, struct pace *pace)
{
	int64_t now;

	while ((now = clock_now_ns()) < until_ns) {
		int64_t next = until_ns;
		struct timespec t;

		if (pace_level(pace) == PACE_STOP)
			return -ECANCELED;
		if (pace && next - now > STOP_NS)
			next = now + STOP_NS;
		t = clock_timespec(next);
		(void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
	}
	return 0;
}
