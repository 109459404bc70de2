// SPDX-License-Identifier: Apache-2.0
/* Hold a mutex until the end of the scope, however the scope is left. */
#ifndef BOOTSEER_COMMON_MUTEX_H
#define BOOTSEER_COMMON_MUTEX_H

#include <pthread.h>

/* AUTO_UNLOCK held = mutex_hold(&t->lock); with NULL nothing is held. */
static inline pthread_mutex_t *mutex_hold(pthread_mutex_t *m)
{
	(void)pthread_mutex_lock(m);
	return m;
}

static inline void cleanup_unlock(pthread_mutex_t *const *m)
{
	if (*m)
		(void)pthread_mutex_unlock(*m);
}

#define AUTO_UNLOCK \
	__attribute__((cleanup(cleanup_unlock), unused)) pthread_mutex_t *

#endif
