// SPDX-License-Identifier: Apache-2.0
#include "common/periodic.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/cond.h"
#include "common/thread.h"

struct periodic {
	periodic_fn *fn;
	void *arg;
	struct thread thread;
	pthread_mutex_t lock; /* protects the rest */
	pthread_cond_t changed;
	bool is_stopping, is_woken;
	int64_t at_ns; /* time of the next call */
};

static void *periodic_main(void *arg)
{
	struct periodic *p = arg;
	int64_t at;

	pthread_mutex_lock(&p->lock);
	for (;;) {
		while (!p->is_stopping && !p->is_woken &&
		       cond_wait_until(&p->changed, &p->lock, p->at_ns))
			;
		if (p->is_stopping)
			break;
		p->is_woken = false;
		pthread_mutex_unlock(&p->lock);
		at = p->fn(p->arg);
		pthread_mutex_lock(&p->lock);
		p->at_ns = at;
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

int periodic_start(periodic_fn *fn, void *arg, int64_t first_ns,
		   struct periodic **ret, struct error *err)
{
	struct periodic *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return error_nomem(err);
	p->fn = fn;
	p->arg = arg;
	p->is_woken = first_ns == 0;
	p->at_ns = clock_now_ns() + first_ns;
	pthread_mutex_init(&p->lock, NULL);
	cond_init(&p->changed);
	rc = thread_start(&p->thread, periodic_main, p, err);
	if (rc < 0)
		periodic_free(p);
	else
		*ret = p;
	return rc;
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
	thread_join(&p->thread);
	periodic_free(p);
}
