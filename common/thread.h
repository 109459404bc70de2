// SPDX-License-Identifier: Apache-2.0
/* A thread of its own, for work that neither a pool nor common/periodic.h fits. */
#ifndef BOOTSEER_COMMON_THREAD_H
#define BOOTSEER_COMMON_THREAD_H

#include <pthread.h>
#include <stdbool.h>

#include "common/cleanup.h"
#include "common/error.h"

/* Zeroed: not started. */
struct thread {
	pthread_t id;
	bool is_started;
};

/* Call fn(arg) on a thread that takes no signals but those of its own faults: signals of a
 * process are for its first thread, and a peer that went away is an error of a write. */
int thread_start(struct thread *t, void *(*fn)(void *arg), void *arg,
		 struct error *err) MUST_CHECK;
/* Wait until fn() has returned; nothing where it was not started, or was waited for. */
void thread_join(struct thread *t);
/* Instead: nobody waits for it.  Its function may use nothing but what it frees itself. */
void thread_leave(struct thread *t);

#endif
