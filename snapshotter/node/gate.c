// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/gate.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "common/clock.h"

#define NS_PER_S INT64_C(1000000000)

struct inside {
	struct inside *next;
	struct digest key;
};

struct gate {
	pthread_mutex_t lock; /* protects the list */
	pthread_cond_t left;
	struct inside *first; /* as many as threads work: a short list */
};

struct gate *gate_new(void)
{
	struct gate *g = calloc(1, sizeof(*g));
	pthread_condattr_t attr;

	if (!g)
		return NULL;
	pthread_mutex_init(&g->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&g->left, &attr);
	pthread_condattr_destroy(&attr);
	return g;
}

void gate_free(struct gate *g)
{
	if (!g)
		return;
	pthread_cond_destroy(&g->left);
	pthread_mutex_destroy(&g->lock);
	free(g);
}

static struct inside **find(struct gate *g, const struct digest *key)
{
	struct inside **p = &g->first;

	while (*p && !digest_equal(&(*p)->key, key))
		p = &(*p)->next;
	return p;
}

int gate_enter(struct gate *g, const struct digest *key, int64_t timeout_ns,
	       struct error *err)
{
	struct inside *me = malloc(sizeof(*me));
	struct timespec end;
	int rc = 0;

	if (!me)
		return error_nomem(err);
	me->key = *key;
	end = clock_timespec(clock_now_ns() + timeout_ns);

	pthread_mutex_lock(&g->lock);
	while (*find(g, key) && rc == 0)
		rc = pthread_cond_timedwait(&g->left, &g->lock, &end);
	if (!*find(g, key)) {
		me->next = g->first;
		g->first = me;
		me = NULL;
	}
	pthread_mutex_unlock(&g->lock);
	if (!me)
		return 0;
	free(me);
	return error_set(err, ETIMEDOUT,
			 "other work on this image does not end");
}

void gate_leave(struct gate *g, const struct digest *key)
{
	struct inside **p, *gone;

	pthread_mutex_lock(&g->lock);
	p = find(g, key);
	gone = *p;
	if (gone)
		*p = gone->next;
	pthread_cond_broadcast(&g->left);
	pthread_mutex_unlock(&g->lock);
	free(gone);
}
