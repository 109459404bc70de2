// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/images/keyed_lock.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "common/clock.h"
#include "common/cond.h"
#include "common/mutex.h"

/* period at which a waiting thread checks its pace */
#define LOOK_NS INT64_C(50000000)

struct inside {
	struct inside *next;
	struct digest key;
};

struct keyed_lock {
	pthread_mutex_t lock; /* protects the list */
	pthread_cond_t left;
	struct inside *first; /* a short list: at most one for each thread */
};

struct keyed_lock *keyed_lock_new(void)
{
	struct keyed_lock *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	pthread_mutex_init(&g->lock, NULL);
	cond_init(&g->left);
	return g;
}

void keyed_lock_free(struct keyed_lock *g)
{
	if (!g)
		return;
	pthread_cond_destroy(&g->left);
	pthread_mutex_destroy(&g->lock);
	free(g);
}

static struct inside **find_key(struct keyed_lock *g, const struct digest *key)
{
	struct inside **p = &g->first;

	while (*p && !digest_equal(&(*p)->key, key))
		p = &(*p)->next;
	return p;
}

/* Wait until a key is left, or it is time to check `pace`.  g->lock is held. */
static int wait_left(struct keyed_lock *g, int64_t end, struct pace *pace)
{
	int64_t now = clock_now_ns();

	if (now >= end)
		return -ETIMEDOUT;
	if (pace_level(pace) == PACE_STOP)
		return -ECANCELED;
	(void)cond_wait_until(&g->left, &g->lock,
			      pace && end - now > LOOK_NS ? now + LOOK_NS
							  : end);
	return 0;
}

int keyed_lock_enter(struct keyed_lock *g, const struct digest *key,
		     int64_t timeout_ns, struct error *err)
{
	return keyed_lock_enter_paced(g, key, timeout_ns, NULL, err);
}

int keyed_lock_enter_paced(struct keyed_lock *g, const struct digest *key,
			   int64_t timeout_ns, struct pace *pace,
			   struct error *err)
{
	struct inside *me = malloc(sizeof(*me));
	int64_t end = clock_now_ns() + timeout_ns;
	int rc = 0;

	if (!me)
		return error_nomem(err);
	me->key = *key;

	pthread_mutex_lock(&g->lock);
	while (*find_key(g, key) && rc == 0)
		rc = wait_left(g, end, pace);
	if (!*find_key(g, key)) {
		me->next = g->first;
		g->first = me;
		me = NULL;
	}
	pthread_mutex_unlock(&g->lock);
	if (!me)
		return 0;
	free(me);
	if (rc == -ECANCELED)
		return error_set(err, ECANCELED, "not wanted any more");
	return error_set(err, ETIMEDOUT,
			 "other work on this image does not end");
}

bool keyed_lock_is_taken(struct keyed_lock *g, const struct digest *key)
{
	AUTO_UNLOCK held = mutex_hold(&g->lock);

	return *find_key(g, key) != NULL;
}

void keyed_lock_leave(struct keyed_lock *g, const struct digest *key)
{
	struct inside **p, *gone;

	pthread_mutex_lock(&g->lock);
	p = find_key(g, key);
	gone = *p;
	if (gone)
		*p = gone->next;
	pthread_cond_broadcast(&g->left);
	pthread_mutex_unlock(&g->lock);
	free(gone);
}
