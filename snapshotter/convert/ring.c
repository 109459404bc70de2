// SPDX-License-Identifier: Apache-2.0
/* Whoever finishes the oldest piece writes it, and those behind it that are
 * ready. */
#include "snapshotter/convert/ring.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

struct slot {
	struct ring_item item;
	bool done;
};

struct ring {
	struct ring_config cfg;
	pthread_t threads[RING_JOBS_MAX];
	size_t n_threads;
	pthread_mutex_t lock; /* for what is below */
	pthread_cond_t moved;
	struct slot *slots;
	size_t n_slots;
	uint64_t head, next, tail; /* put, taken, written */
	bool writing;              /* somebody is in write() */
	bool ending;
	int rc;
	struct error err;
};

static void fail(struct ring *r, int rc, const struct error *err)
{
	if (r->rc == 0) {
		r->rc = rc;
		r->err = *err;
	}
	pthread_cond_broadcast(&r->moved);
}

/* Write finished slots in order.  Holds the lock but while it writes. */
static void drain(struct ring *r)
{
	while (!r->writing && r->rc == 0 && r->tail < r->next &&
	       r->slots[r->tail % r->n_slots].done) {
		struct slot *s = &r->slots[r->tail % r->n_slots];
		struct error err = ERROR_INIT;
		int rc;

		r->writing = true;
		pthread_mutex_unlock(&r->lock);
		rc = r->cfg.write(r->cfg.arg, &s->item, &err);
		pthread_mutex_lock(&r->lock);
		r->writing = false;
		if (rc < 0) {
			fail(r, rc, &err);
			return;
		}
		s->done = false;
		r->tail++;
		pthread_cond_broadcast(&r->moved);
	}
}

static void *work_thread(void *arg)
{
	struct ring *r = arg;
	void *worker = r->cfg.worker_new(r->cfg.arg);
	struct error err = ERROR_INIT;

	pthread_mutex_lock(&r->lock);
	if (!worker)
		fail(r, error_nomem(&err), &err);
	for (;;) {
		struct slot *s;
		int rc;

		while (r->next == r->head && !r->ending && r->rc == 0)
			pthread_cond_wait(&r->moved, &r->lock);
		if (r->rc < 0 || r->next == r->head)
			break;
		s = &r->slots[r->next++ % r->n_slots];
		pthread_mutex_unlock(&r->lock);
		rc = r->cfg.work(r->cfg.arg, worker, &s->item, &err);
		pthread_mutex_lock(&r->lock);
		if (rc < 0) {
			fail(r, rc, &err);
			break;
		}
		s->done = true;
		drain(r);
	}
	pthread_mutex_unlock(&r->lock);
	if (worker)
		r->cfg.worker_free(worker);
	return NULL;
}

int ring_new(const struct ring_config *cfg, struct ring **ret,
	     struct error *err)
{
	AUTO(ring) r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return error_nomem(err);
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->moved, NULL);
	r->cfg = *cfg;
	if (cfg->jobs < 1 || cfg->jobs > RING_JOBS_MAX)
		return error_set(err, EINVAL, "jobs must be 1 to %d",
				 RING_JOBS_MAX);
	/* One in work for each, one being written, one being filled. */
	r->n_slots = cfg->jobs + (size_t)2;
	r->slots = calloc(r->n_slots, sizeof(*r->slots));
	if (!r->slots)
		return error_nomem(err);
	for (size_t i = 0; i < r->n_slots; i++) {
		r->slots[i].item.in = malloc(cfg->in_cap);
		r->slots[i].item.out = malloc(cfg->out_cap);
		if (!r->slots[i].item.in || !r->slots[i].item.out)
			return error_nomem(err);
	}
	while (r->n_threads < cfg->jobs) {
		rc = pthread_create(&r->threads[r->n_threads], NULL,
				    work_thread, r);
		if (rc)
			return error_set(err, rc, "start a thread: %s",
					 strerror(rc));
		r->n_threads++;
	}
	*ret = steal_ptr(&r);
	return 0;
}

static void join(struct ring *r)
{
	pthread_mutex_lock(&r->lock);
	r->ending = true;
	pthread_cond_broadcast(&r->moved);
	pthread_mutex_unlock(&r->lock);
	for (size_t i = 0; i < r->n_threads; i++)
		pthread_join(r->threads[i], NULL);
	r->n_threads = 0;
}

void ring_free(struct ring *r)
{
	struct error err = ERROR_INIT;

	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	fail(r, -ECANCELED, &err);
	pthread_mutex_unlock(&r->lock);
	join(r);
	for (size_t i = 0; r->slots && i < r->n_slots; i++) {
		free(r->slots[i].item.in);
		free(r->slots[i].item.out);
	}
	free(r->slots);
	pthread_cond_destroy(&r->moved);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

static int failure(const struct ring *r, struct error *err)
{
	if (r->rc < 0 && err)
		*err = r->err;
	return r->rc;
}

int ring_put(struct ring *r, uint8_t **buf, uint32_t len, uint32_t tag,
	     struct error *err)
{
	int rc;

	pthread_mutex_lock(&r->lock);
	while (r->head - r->tail == r->n_slots && r->rc == 0)
		pthread_cond_wait(&r->moved, &r->lock);
	rc = failure(r, err);
	if (rc == 0) {
		struct ring_item *i = &r->slots[r->head % r->n_slots].item;
		uint8_t *in = i->in;

		i->in = *buf;
		i->in_len = len;
		i->tag = tag;
		*buf = in;
		r->head++;
		pthread_cond_broadcast(&r->moved);
	}
	pthread_mutex_unlock(&r->lock);
	return rc;
}

int ring_finish(struct ring *r, struct error *err)
{
	join(r);
	return failure(r, err);
}
