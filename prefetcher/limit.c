// SPDX-License-Identifier: Apache-2.0
#include "prefetcher/limit.h"
#include "common/clock.h"

/* Cannot overflow: the second product is below LIMIT_RATE_MAX * 10^9 < 2^64. */
static int64_t get_transfer_time_ns(uint64_t bytes, uint64_t rate)
{
	return (int64_t)(bytes / rate * NS_PER_S +
			 bytes % rate * NS_PER_S / rate);
}

int64_t limit_take(struct limit *l, uint64_t bytes, int64_t now_ns)
{
	if (l->rate == 0)
		return 0;
	if (now_ns < l->ready_ns)
		return l->ready_ns - now_ns;
	l->ready_ns = now_ns + get_transfer_time_ns(bytes, l->rate);
	return 0;
}
