// SPDX-License-Identifier: Apache-2.0
/* Pauses between attempts of what failed in passing. */
#ifndef BOOTSEER_COMMON_BACKOFF_H
#define BOOTSEER_COMMON_BACKOFF_H

#include <stdint.h>

#include "common/pace.h"

/* The first pause and the longest; each is twice as long as the one before. */
struct backoff {
	uint32_t first_ms, most_ms;
};

/*
 * How long to wait after failure number `n`, from 1: half of it by chance, so that nodes
 * that failed together do not come back together.  Not less than the server's wish
 * `least_ms`; 0: it has none.  Nanoseconds.
 */
int64_t backoff_ns(const struct backoff *b, unsigned int n, uint64_t least_ms);

/*
 * Wait until a time of CLOCK_MONOTONIC.  `pace` may be NULL; -ECANCELED: it says stop,
 * which is seen within 50 ms.
 */
int backoff_wait(int64_t until_ns, struct pace *pace);

#endif
