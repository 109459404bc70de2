// SPDX-License-Identifier: Apache-2.0
#include "net/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/thread.h"

struct pool {
	struct loop *loop;
	size_t max_queued;
	size_t n_threads;
	struct thread *threads;

	pthread_mutex_t lock; /* protects the rest */
	pthread_cond_t more;
	struct work *first;
	struct work **last;
	size_t n_queued;
	bool stopping;
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
	while (!p->first && !p->stopping)
		pthread_cond_wait(&p->more, &p->lock);
	w = p->first;
	if (w) {
		p->first = w->next;
		if (!p->first)
			p->last = &p->first;
		p->n_queued--;
	}
	pthread_mutex_unlock(&p->lock);
	return w;
}

static void *pool_main(void *arg)
{
	struct pool *p = arg;
	struct work *w;

	while ((w = next_work(p))) {
		/* Without `done`, `run` may have released the work. */
		bool has_done = w->done;

		w->run(w);
		if (has_done)
			loop_post(p->loop, &w->call);
	}
	return NULL;
}

static int start_threads(struct pool *p, size_t n, struct error *err)
{
	int rc = 0;

	while (rc == 0 && p->n_threads < n) {
		rc = thread_start(&p->threads[p->n_threads], pool_main, p, err);
		p->n_threads += rc == 0;
	}
	return rc;
}

int pool_new(struct loop *loop, size_t n_threads, size_t max_queued,
	     struct pool **ret, struct error *err)
{
	AUTO(pool) p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return error_nomem(err);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->more, NULL);
	p->loop = loop;
	p->max_queued = max_queued;
	p->last = &p->first;
	p->threads = calloc(n_threads, sizeof(*p->threads));
	if (!p->threads)
		return error_nomem(err);
	rc = start_threads(p, n_threads, err);
	if (rc < 0)
		return rc;
	*ret = steal_ptr(&p);
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
	free(p->threads);
	free(p);
}

int pool_submit(struct pool *p, struct work *w)
{
	int rc = 0;

	w->pool = p;
	w->next = NULL;
	w->call.fn = on_done;
	pthread_mutex_lock(&p->lock);
	if (p->max_queued && p->n_queued >= p->max_queued) {
		rc = -EAGAIN;
	} else {
		*p->last = w;
		p->last = &w->next;
		p->n_queued++;
		pthread_cond_signal(&p->more);
	}
	pthread_mutex_unlock(&p->lock);
	return rc;
}

size_t pool_queued(struct pool *p)
{
	size_t n;

	pthread_mutex_lock(&p->lock);
	n = p->n_queued;
	pthread_mutex_unlock(&p->lock);
	return n;
}
