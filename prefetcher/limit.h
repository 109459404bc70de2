// SPDX-License-Identifier: Apache-2.0
/* A rate limit. Pure: the caller has the clock and the lock. */
#ifndef BOOTSEER_PREFETCHER_LIMIT_H
#define BOOTSEER_PREFETCHER_LIMIT_H

#include <stdint.h>

struct limit {
	uint64_t rate; /* bytes a second, at most LIMIT_RATE_MAX; 0: none */
	/* when the bytes taken so far have used up their time */
	int64_t ready_ns;
};
#define LIMIT_RATE_MAX (UINT64_C(16) << 30)

/*
 * Take `bytes` and return 0, or take nothing and return the nanoseconds after which to try
 * again. A request may be larger than the amount of a second: those after it wait longer for it,
 * so the rate holds over any longer time.
 */
int64_t limit_take(struct limit *l, uint64_t bytes, int64_t now_ns);

#endif
