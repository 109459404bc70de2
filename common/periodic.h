// SPDX-License-Identifier: Apache-2.0
/* A thread that calls a function at the times that the function wants. */
#ifndef BOOTSEER_COMMON_PERIODIC_H
#define BOOTSEER_COMMON_PERIODIC_H

#include <stdint.h>

#include "common/cleanup.h"
#include "common/error.h"

struct periodic;

/* Called on the thread.  Returns the time of the next call, in time of clock_now_ns(). */
typedef int64_t periodic_fn(void *arg);

/* Start the thread, which has all signals blocked.  The first call comes after `first_ns`; 0: at
 * once. */
int periodic_start(periodic_fn *fn, void *arg, int64_t first_ns,
		   struct periodic **ret, struct error *err) MUST_CHECK;
/* Have the function called now; if it is running, once more after that.  Any thread; NULL is
 * allowed. */
void periodic_wake(struct periodic *p);
/* Stop the thread; waits for a call under way.  NULL is allowed. */
void periodic_stop(struct periodic *p);

#endif
