// SPDX-License-Identifier: Apache-2.0
/* A thread that does something now and then. */
#ifndef BOOTSEER_COMMON_PERIODIC_H
#define BOOTSEER_COMMON_PERIODIC_H

#include <stdint.h>

#include "common/cleanup.h"
#include "common/error.h"

struct periodic;

/* Called on the thread.  Returns when to be called again, as clock_now_ns() counts. */
typedef int64_t periodic_fn(void *arg);

/* Start the thread, which takes no signals; the first call is after `first_ns`, 0: at
 * once. */
int periodic_start(periodic_fn *fn, void *arg, int64_t first_ns,
		   struct periodic **ret, struct error *err) MUST_CHECK;
/* Have the function called now, or again when it runs.  Any thread; NULL is
 * allowed. */
void periodic_wake(struct periodic *p);
/* Waits for the call under way.  NULL is allowed. */
void periodic_stop(struct periodic *p);

#endif
