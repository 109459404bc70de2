// SPDX-License-Identifier: Apache-2.0
/* Condition variables whose waits have a deadline in time of common/clock.h. */
#ifndef BOOTSEER_COMMON_COND_H
#define BOOTSEER_COMMON_COND_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

void cond_init(pthread_cond_t *c);

/* Wait with `lock` held (released meanwhile) until the condition is signalled or, spuriously,
 * without a signal.  Returns false when the time `at_ns` came first. */
bool cond_wait_until(pthread_cond_t *c, pthread_mutex_t *lock, int64_t at_ns);

#endif
