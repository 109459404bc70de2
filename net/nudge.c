// SPDX-License-Identifier: Apache-2.0
#include "net/nudge.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

#define SIGNAL SIGUSR1

struct nudge {
	timer_t timer;
};

/* The signal only has to interrupt a system call. */
static void on_nudge(int signo)
{
	(void)signo;
}

int nudge_new(struct nudge **ret, struct error *err)
{
	const struct sigaction action = { .sa_handler = on_nudge };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID,
				  .sigev_signo = SIGNAL };
	struct nudge *n = calloc(1, sizeof(*n));
	sigset_t set;

	if (!n)
		return error_nomem(err);
	event.sigev_notify_thread_id = (int)syscall(SYS_gettid);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGNAL);
	if (sigaction(SIGNAL, &action, NULL) < 0 ||
	    pthread_sigmask(SIG_UNBLOCK, &set, NULL) != 0 ||
	    timer_create(CLOCK_MONOTONIC, &event, &n->timer) < 0) {
		free(n);
		return error_errno(err, errno, "a timer");
	}
	*ret = n;
	return 0;
}

void nudge_free(struct nudge *n)
{
	if (!n)
		return;
	(void)timer_delete(n->timer);
	free(n);
}

static void nudge_timeout_set(struct nudge *n, int64_t ns)
{
	const struct timespec at = { .tv_nsec = ns };
	const struct itimerspec each = { .it_interval = at, .it_value = at };

	if (n)
		(void)timer_settime(n->timer, 0, &each, NULL);
}

void nudge_begin(struct nudge *n)
{
	nudge_timeout_set(n, NUDGE_NS);
}

void nudge_end(struct nudge *n)
{
	nudge_timeout_set(n, 0);
}
