// SPDX-License-Identifier: Apache-2.0
/* Pauses between attempts of an operation that failed for a passing reason. */
#ifndef BOOTSEER_COMMON_BACKOFF_H
#define BOOTSEER_COMMON_BACKOFF_H

#include <stdint.h>

#include "common/pace.h"

/* The first pause and the longest; each is twice as long as the one before. */
struct backoff {
	uint32_t first_ms, most_ms;
};

/*
 * How long to wait, in nanoseconds, after failure number `n` (from 1).  Half of the pause is
 * random, so that nodes that failed together do not retry together.  The pause is at least
 * `least_ms`, the server's wish (0: it has none).
 */
int64_t backoff_ns(const struct backoff *b, unsigned int n, uint64_t least_ms);

/*
 * Wait until the time `until_ns` of CLOCK_MONOTONIC. `pace` may be NULL; when it says stop, this
 * returns -ECANCELED within 50 ms.
 */
int backoff_wait(int64_t until_ns, struct pace *pace);

#endif
