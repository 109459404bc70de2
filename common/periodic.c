// SPDX-License-Identifier: Apache-2.0
#include "common/cond.h"
#include "common/periodic.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"

struct periodic {
	periodic_fn *fn;
	void *arg;
	pthread_t thread;
	pthread_mutex_t lock; /* protects the rest */
	pthread_cond_t changed;
	bool is_stopping, is_woken;
};

static void *periodic_main(void *arg)
{
	struct periodic *p = arg;
	int64_t at;

	pthread_mutex_lock(&p->lock);
	while (!p->is_stopping) {
		p->is_woken = false;
		pthread_mutex_unlock(&p->lock);
		at = p->fn(p->arg);
		pthread_mutex_lock(&p->lock);
		while (!p->is_stopping && !p->is_woken &&
		       cond_wait_until(&p->changed, &p->lock, at))
			;
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

static void periodic_free(struct periodic *p)
{
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

int periodic_start(periodic_fn *fn, void *arg, struct periodic **ret,
		   struct error *err)
{
	struct periodic *p = calloc(1, sizeof(*p));
	sigset_t all, old;
	int rc;

	if (!p)
		return error_nomem(err);
	p->fn = fn;
	p->arg = arg;
	pthread_mutex_init(&p->lock, NULL);
	cond_init(&p->changed);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&p->thread, NULL, periodic_main, p);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc) {
		periodic_free(p);
		return error_set(err, rc, "thread: %s", strerror(rc));
	}
	*ret = p;
	return 0;
}

void periodic_wake(struct periodic *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->is_woken = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

void periodic_stop(struct periodic *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->is_stopping = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	periodic_free(p);
}
