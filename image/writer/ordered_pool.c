// SPDX-License-Identifier: Apache-2.0
/* Threads take items in order. The thread that finishes the oldest item writes it, and also
 * the finished ones behind it. */
#include "image/writer/ordered_pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#include "common/thread.h"

struct pool_slot {
	struct ordered_pool_item item;
	bool done;
};

struct ordered_pool {
	struct ordered_pool_config cfg;
	struct thread threads[ORDERED_POOL_JOBS_MAX];
	size_t n_threads;
	pthread_mutex_t lock; /* for what is below */
	pthread_cond_t moved;
	struct pool_slot *slots;
	size_t n_slots;
	/* counts of items: put, taken by threads, written */
	uint64_t head, next, tail;
	bool writing; /* a thread is in write() */
	bool ending;
	int rc;
	struct error err;
};

static void ordered_pool_fail(struct ordered_pool *p, int rc,
			      const struct error *err)
{
	if (p->rc == 0) {
		p->rc = rc;
		p->err = *err;
	}
	pthread_cond_broadcast(&p->moved);
}

/* Write finished slots in order. Called with the lock, which is released while it writes. */
static void ordered_pool_drain(struct ordered_pool *p)
{
	while (!p->writing && p->rc == 0 && p->tail < p->next &&
	       p->slots[p->tail % p->n_slots].done) {
		struct pool_slot *s = &p->slots[p->tail % p->n_slots];
		struct error err = ERROR_INIT;
		int rc;

		p->writing = true;
		pthread_mutex_unlock(&p->lock);
		rc = p->cfg.write(p->cfg.arg, &s->item, &err);
		pthread_mutex_lock(&p->lock);
		p->writing = false;
		if (rc < 0) {
			ordered_pool_fail(p, rc, &err);
			return;
		}
		s->done = false;
		p->tail++;
		pthread_cond_broadcast(&p->moved);
	}
}

static void *ordered_pool_thread(void *arg)
{
	struct ordered_pool *p = arg;
	void *worker = p->cfg.worker_new(p->cfg.arg);
	struct error err = ERROR_INIT;

	pthread_mutex_lock(&p->lock);
	if (!worker)
		ordered_pool_fail(p, error_nomem(&err), &err);
	for (;;) {
		struct pool_slot *s;
		int rc;

		while (p->next == p->head && !p->ending && p->rc == 0)
			pthread_cond_wait(&p->moved, &p->lock);
		if (p->rc < 0 || p->next == p->head)
			break;
		s = &p->slots[p->next++ % p->n_slots];
		pthread_mutex_unlock(&p->lock);
		rc = p->cfg.work(p->cfg.arg, worker, &s->item, &err);
		pthread_mutex_lock(&p->lock);
		if (rc < 0) {
			ordered_pool_fail(p, rc, &err);
			break;
		}
		s->done = true;
		ordered_pool_drain(p);
	}
	pthread_mutex_unlock(&p->lock);
	if (worker)
		p->cfg.worker_free(worker);
	return NULL;
}

int ordered_pool_new(const struct ordered_pool_config *cfg,
		     struct ordered_pool **ret, struct error *err)
{
	AUTO(ordered_pool) p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return error_nomem(err);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->moved, NULL);
	p->cfg = *cfg;
	if (cfg->jobs < 1 || cfg->jobs > ORDERED_POOL_JOBS_MAX)
		return error_set(err, EINVAL, "jobs must be 1 to %d",
				 ORDERED_POOL_JOBS_MAX);
	/* A slot for each thread, one that is being written, and one that is
	 * being filled. */
	p->n_slots = cfg->jobs + (size_t)2;
	p->slots = calloc(p->n_slots, sizeof(*p->slots));
	if (!p->slots)
		return error_nomem(err);
	for (size_t i = 0; i < p->n_slots; i++) {
		p->slots[i].item.in = malloc(cfg->in_cap);
		p->slots[i].item.out = malloc(cfg->out_cap);
		if (!p->slots[i].item.in || !p->slots[i].item.out)
			return error_nomem(err);
	}
	while (p->n_threads < cfg->jobs) {
		rc = thread_start(&p->threads[p->n_threads],
				  ordered_pool_thread, p, err);
		if (rc < 0)
			return rc;
		p->n_threads++;
	}
	*ret = steal_ptr(&p);
	return 0;
}

static void ordered_pool_join(struct ordered_pool *p)
{
	pthread_mutex_lock(&p->lock);
	p->ending = true;
	pthread_cond_broadcast(&p->moved);
	pthread_mutex_unlock(&p->lock);
	for (size_t i = 0; i < p->n_threads; i++)
		thread_join(&p->threads[i]);
	p->n_threads = 0;
}

void ordered_pool_free(struct ordered_pool *p)
{
	struct error err = ERROR_INIT;

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	ordered_pool_fail(p, -ECANCELED, &err);
	pthread_mutex_unlock(&p->lock);
	ordered_pool_join(p);
	for (size_t i = 0; p->slots && i < p->n_slots; i++) {
		free(p->slots[i].item.in);
		free(p->slots[i].item.out);
	}
	free(p->slots);
	pthread_cond_destroy(&p->moved);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

static int ordered_pool_failure(const struct ordered_pool *p, struct error *err)
{
	if (p->rc < 0 && err)
		*err = p->err;
	return p->rc;
}

int ordered_pool_put(struct ordered_pool *p, uint8_t **buf, uint32_t len,
		     uint32_t tag, struct error *err)
{
	int rc;

	pthread_mutex_lock(&p->lock);
	while (p->head - p->tail == p->n_slots && p->rc == 0)
		pthread_cond_wait(&p->moved, &p->lock);
	rc = ordered_pool_failure(p, err);
	if (rc == 0) {
		struct ordered_pool_item *i =
			&p->slots[p->head % p->n_slots].item;
		uint8_t *in = i->in;

		i->in = *buf;
		i->in_len = len;
		i->tag = tag;
		*buf = in;
		p->head++;
		pthread_cond_broadcast(&p->moved);
	}
	pthread_mutex_unlock(&p->lock);
	return rc;
}

int ordered_pool_finish(struct ordered_pool *p, struct error *err)
{
	ordered_pool_join(p);
	return ordered_pool_failure(p, err);
}
