// SPDX-License-Identifier: Apache-2.0
#include "registry/turns.h"

#include <errno.h>
#include <string.h>

#include "common/hash.h"

#define LEFT_TO_OTHERS 4 /* one owner leaves one in so many threads to others */

struct turns_owner {
	char *name;
	STAILQ_HEAD(, owner_turn) waiting;
	size_t n_running;
	UT_hash_handle hh;
	TAILQ_ENTRY(turns_owner) ring; /* ring of owners with waiting calls */
};

struct turns {
	struct pool *pool;
	/* number of threads; most threads for one owner */
	size_t n_threads, own_max;
	size_t waiting_max, n_waiting, n_running;
	struct turns_owner *owners;
	/* the owner whose turn is next comes first */
	TAILQ_HEAD(ring, turns_owner) ring;
	bool is_stopped;
};

int turns_new(struct pool *pool, size_t n_threads, size_t waiting_max,
	      struct turns **ret, struct error *err)
{
	struct turns *t = calloc(1, sizeof(*t));

	if (!t)
		return error_nomem(err);
	t->pool = pool;
	t->n_threads = n_threads;
	t->own_max = n_threads - n_threads / LEFT_TO_OTHERS;
	if (t->own_max == n_threads && n_threads > 1)
		t->own_max--;
	t->waiting_max = waiting_max;
	TAILQ_INIT(&t->ring);
	*ret = t;
	return 0;
}

void turns_free(struct turns *t)
{
	free(t);
}

static struct turns_owner *owner_get(struct turns *t, const char *name)
{
	struct turns_owner *o;

	HASH_FIND_STR(t->owners, name, o);
	if (o)
		return o;
	o = calloc(1, sizeof(*o));
	if (!o)
		return NULL;
	STAILQ_INIT(&o->waiting);
	o->name = strdup(name);
	if (o->name)
		HASH_ADD_KEYPTR(hh, t->owners, o->name, strlen(o->name), o);
	if (o->name && hash_has_added(o))
		return o;
	free(o->name);
	free(o);
	return NULL;
}

static void owner_free_if_idle(struct turns *t, struct turns_owner *o)
{
	if (o->n_running || !STAILQ_EMPTY(&o->waiting))
		return;
	HASH_DEL(t->owners, o);
	free(o->name);
	free(o);
}

static void run_turn(struct work *work)
{
	struct owner_turn *w = container_of(work, struct owner_turn, work);

	w->run(w);
}

static void start_waiting_turns(struct turns *t);

static void end_owner_turn(struct work *work)
{
	struct owner_turn *w = container_of(work, struct owner_turn, work);
	struct turns *t = w->turns;

	t->n_running--;
	w->owner->n_running--;
	owner_free_if_idle(t, w->owner);
	w->done(w);
	start_waiting_turns(t);
}

/* Take the first waiting call of an owner, and move the owner behind the others. */
static struct owner_turn *take_turn(struct turns *t, struct turns_owner *o)
{
	struct owner_turn *w = STAILQ_FIRST(&o->waiting);

	STAILQ_REMOVE_HEAD(&o->waiting, next);
	TAILQ_REMOVE(&t->ring, o, ring);
	if (!STAILQ_EMPTY(&o->waiting))
		TAILQ_INSERT_TAIL(&t->ring, o, ring);
	t->n_waiting--;
	return w;
}

static struct turns_owner *find_next_owner(struct turns *t)
{
	struct turns_owner *o;

	TAILQ_FOREACH(o, &t->ring, ring)
	if (o->n_running < t->own_max)
		break;
	return o;
}

static void start_waiting_turns(struct turns *t)
{
	struct turns_owner *o;
	struct owner_turn *w;

	while (t->n_running < t->n_threads && (o = find_next_owner(t))) {
		w = take_turn(t, o);
		t->n_running++;
		o->n_running++;
		w->work = (struct work){ .run = run_turn,
					 .done = end_owner_turn };
		/* cannot fail: the pool's queue is unbounded */
		(void)!pool_submit(t->pool, &w->work);
	}
}

int turns_submit(struct turns *t, struct owner_turn *w, const char *owner)
{
	struct turns_owner *o;

	if (t->is_stopped || t->n_waiting >= t->waiting_max)
		return -EAGAIN;
	o = owner_get(t, owner);
	if (!o)
		return -ENOMEM;
	w->turns = t;
	w->owner = o;
	if (STAILQ_EMPTY(&o->waiting))
		TAILQ_INSERT_TAIL(&t->ring, o, ring);
	STAILQ_INSERT_TAIL(&o->waiting, w, next);
	t->n_waiting++;
	start_waiting_turns(t);
	return 0;
}

void turns_stop(struct turns *t)
{
	struct turns_owner *o;

	t->is_stopped = true;
	while ((o = TAILQ_FIRST(&t->ring))) {
		struct owner_turn *w = take_turn(t, o);

		owner_free_if_idle(t, o);
		w->drop(w);
	}
}

size_t turns_waiting(const struct turns *t)
{
	return t->n_waiting;
}
