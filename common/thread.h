// SPDX-License-Identifier: Apache-2.0
/* A dedicated thread, for work that suits neither a pool nor common/periodic.h. */
#ifndef BOOTSEER_COMMON_THREAD_H
#define BOOTSEER_COMMON_THREAD_H

#include <pthread.h>
#include <stdbool.h>

#include "common/cleanup.h"
#include "common/error.h"

/* All zero: not started. */
struct thread {
	pthread_t id;
	bool is_started;
};

/* Call fn(arg) on a new thread that blocks all signals except those of its own faults: signals
 * of the process go to the first thread, and a write to a closed connection is an error, not
 * SIGPIPE. */
int thread_start(struct thread *t, void *(*fn)(void *arg), void *arg,
		 struct error *err) MUST_CHECK;
/* Wait until fn() has returned; no effect on a thread never started or already joined. */
void thread_join(struct thread *t);
/* Detach the thread instead of joining it.  Its function may then use only memory that it frees
 * itself. */
void thread_leave(struct thread *t);

#endif
