// SPDX-License-Identifier: Apache-2.0
#include "net/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/mutex.h"
#include "common/thread.h"

struct pool {
	struct loop *loop;
	size_t max_queued;
	size_t max_threads;

	pthread_mutex_t lock; /* protects the rest */
	pthread_cond_t more;
	struct work *first;
	struct work **last;
	size_t n_queued, n_idle, n_threads;
	uint64_t waited_ns;
	bool stopping;
	struct thread threads[];
};

static void on_done(struct loop_call *c)
{
	struct work *w = container_of(c, struct work, call);

	w->done(w);
}

static struct work *next_work(struct pool *p)
{
	struct work *w;

	pthread_mutex_lock(&p->lock);
	p->n_idle++;
	while (!p->first && !p->stopping)
		pthread_cond_wait(&p->more, &p->lock);
	p->n_idle--;
	w = p->first;
	if (w) {
		p->first = w->next;
		if (!p->first)
			p->last = &p->first;
		p->n_queued--;
		p->waited_ns += (uint64_t)(clock_now_ns() - w->queued_ns);
	}
	pthread_mutex_unlock(&p->lock);
	return w;
}

static void *pool_main(void *arg)
{
	struct pool *p = arg;
	struct work *w;

	while ((w = next_work(p))) {
		/* If `done` is NULL, run() may free the work. */
		bool has_done = w->done;

		w->run(w);
		if (has_done)
			loop_post(p->loop, &w->call);
	}
	return NULL;
}

/* Start another thread. With the lock, or before there is another thread. */
static int start_next(struct pool *p, struct error *err)
{
	int rc = thread_start(&p->threads[p->n_threads], pool_main, p, err);

	p->n_threads += rc == 0;
	return rc;
}

static struct pool *pool_make(size_t max_threads)
{
	struct pool *p =
		calloc(1, sizeof(*p) + max_threads * sizeof(p->threads[0]));

	if (!p)
		return NULL;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->more, NULL);
	p->max_threads = max_threads;
	p->last = &p->first;
	return p;
}

int pool_new(struct loop *loop, size_t n_threads, size_t max_queued,
	     struct pool **ret, struct error *err)
{
	AUTO(pool) p = pool_make(n_threads);
	int rc = p ? 0 : error_nomem(err);

	if (rc < 0)
		return rc;
	p->loop = loop;
	p->max_queued = max_queued;
	while (rc == 0 && p->n_threads < n_threads)
		rc = start_next(p, err);
	if (rc == 0)
		*ret = steal_ptr(&p);
	return rc;
}

int pool_new_lazy(size_t max_threads, struct pool **ret, struct error *err)
{
	struct pool *p = pool_make(max_threads);

	if (!p)
		return error_nomem(err);
	*ret = p;
	return 0;
}

void pool_free(struct pool *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->stopping = true;
	pthread_cond_broadcast(&p->more);
	pthread_mutex_unlock(&p->lock);
	for (size_t i = 0; i < p->n_threads; i++)
		thread_join(&p->threads[i]);
	pthread_cond_destroy(&p->more);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* Start a thread if a lazy pool needs one; other pools have all their threads from the
 * start. With the lock. */
static int make_thread(struct pool *p)
{
	if (p->n_queued >= p->n_idle && p->n_threads < p->max_threads)
		(void)!start_next(p, NULL);
	return p->n_threads ? 0 : -EAGAIN;
}

static int submit_pool(struct pool *p, struct work *w, bool is_first)
{
	int rc = -EAGAIN;

	w->pool = p;
	w->call.fn = on_done;
	w->queued_ns = clock_now_ns();
	pthread_mutex_lock(&p->lock);
	if (!p->max_queued || p->n_queued < p->max_queued)
		rc = make_thread(p);
	if (rc == 0) {
		struct work **at = is_first ? &p->first : p->last;

		w->next = *at;
		*at = w;
		if (!w->next)
			p->last = &w->next;
		p->n_queued++;
		pthread_cond_signal(&p->more);
	}
	pthread_mutex_unlock(&p->lock);
	return rc;
}

int pool_submit(struct pool *p, struct work *w)
{
	return submit_pool(p, w, false);
}

int pool_submit_first(struct pool *p, struct work *w)
{
	return submit_pool(p, w, true);
}

size_t pool_queued(struct pool *p)
{
	AUTO_UNLOCK held = mutex_hold(&p->lock);

	return p->n_queued;
}

uint64_t pool_waited_ns(struct pool *p)
{
	AUTO_UNLOCK held = mutex_hold(&p->lock);

	return p->waited_ns;
}
