// SPDX-License-Identifier: Apache-2.0
/* Conditions whose waits end at a time of common/clock.h. */
#ifndef BOOTSEER_COMMON_COND_H
#define BOOTSEER_COMMON_COND_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

void cond_init(pthread_cond_t *c);

/* With `lock`, which is released meanwhile: until it is signalled (or for no reason), or
 * until `at_ns`: then false. */
bool cond_wait_until(pthread_cond_t *c, pthread_mutex_t *lock, int64_t at_ns);

#endif
