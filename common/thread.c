// SPDX-License-Identifier: Apache-2.0
#include "common/thread.h"

#include <signal.h>

int thread_start(struct thread *t, void *(*fn)(void *arg), void *arg,
		 struct error *err)
{
	static const int faults[] = { SIGSEGV, SIGBUS,  SIGFPE,
				      SIGILL,  SIGTRAP, SIGABRT };
	sigset_t mask, old;
	int rc;

	(void)sigfillset(&mask);
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
		(void)sigdelset(&mask, faults[i]);
	(void)pthread_sigmask(SIG_SETMASK, &mask, &old);
	rc = pthread_create(&t->id, NULL, fn, arg);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	t->is_started = rc == 0;
	return rc ? error_errno(err, rc, "start a thread") : 0;
}

void thread_join(struct thread *t)
{
	if (t->is_started)
		(void)pthread_join(t->id, NULL);
	t->is_started = false;
}

void thread_leave(struct thread *t)
{
	if (t->is_started)
		(void)pthread_detach(t->id);
	t->is_started = false;
}
