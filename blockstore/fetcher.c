// SPDX-License-Identifier: Apache-2.0
/* The threads that fetch, the order of their work, and deadlines of readers. */
#include "blockstore/fetcher_share.h"

#include <errno.h>
#include <inttypes.h>
#include <time.h>

#include "common/clock.h"
#include "common/cond.h"

#define THREADS_MAX 256u
#define ROOMS_KEPT_NS NS_PER_S

/* Are transfers of bulk waiting because the limit for bulk is reached? */
static bool is_bulk_full(const struct fetcher *f)
{
	return f->n_bulk >= f->max_bulk &&
	       (!TAILQ_EMPTY(&f->queue[SOURCE_HOT]) ||
		!TAILQ_EMPTY(&f->queue[SOURCE_COLD]));
}

/* All threads are idle: free the block buffers later, since the next request often comes at
 * once. With the lock. */
static void schedule_buffer_trim(struct fetcher *f)
{
	if (f->n_idle < f->cfg.threads || f->trim_ns)
		return;
	f->trim_ns = clock_now_ns() + ROOMS_KEPT_NS;
	(void)pthread_cond_signal(&f->timer);
}

/* Free the unused block buffers when it is time. With the lock. */
static void trim_unused_buffers(struct fetcher *f, int64_t now)
{
	if (f->trim_ns > now)
		return;
	f->trim_ns = 0;
	if (f->n_idle == f->cfg.threads)
		block_rooms_trim(f->rooms);
}

/* The flight that a free thread should take next; NULL: none at present. */
static struct flight *pick_next_flight(struct fetcher *f)
{
	struct flight *fl = share_next_demand(f);

	if (!fl && !TAILQ_EMPTY(&f->queue[SOURCE_DEMAND]))
		share_watch(f);
	if (!fl && is_bulk_full(f))
		(void)pthread_cond_signal(&f->timer);
	if (fl || f->n_bulk >= f->max_bulk)
		return fl;
	TAILQ_FOREACH(fl, &f->queue[SOURCE_HOT], queue)
	if (share_may_begin_bulk(f, fl->dev) ||
	    detour_queued(f, fl, share_may_begin_bulk))
		return fl;
	TAILQ_FOREACH(fl, &f->queue[SOURCE_COLD], queue)
	if (share_may_begin_bulk(f, fl->dev) ||
	    detour_queued(f, fl, share_may_begin_bulk))
		return fl;
	return NULL;
}

static void *fetch_main(void *arg)
{
	struct transfer *t = arg;
	struct fetcher *f = t->f;

	(void)pthread_mutex_lock(&f->lock);
	while (!f->stop) {
		struct flight *fl = pick_next_flight(f);

		if (fl) {
			transfer_run(f, t, fl);
			continue;
		}
		f->n_idle++;
		schedule_buffer_trim(f);
		(void)pthread_cond_wait(&f->work, &f->lock);
		f->n_idle--;
	}
	(void)pthread_mutex_unlock(&f->lock);
	return NULL;
}

/* Fail a reader whose deadline has passed. With the lock, which is released meanwhile. */
static void fetcher_expire(struct fetcher *f, struct pending *p)
{
	struct error err = ERROR_INIT;
	char text[DIGEST_STR_MAX] = "";

	for (size_t i = 0; i < p->n_pieces && !*text; i++)
		if (p->pieces[i].flight)
			digest_format(&p->pieces[i].flight->b.digest, text);
	(void)error_set(&err, ETIMEDOUT,
			"image %s: block %s: not there after %" PRId64 " ms",
			p->dev->label, text,
			(int64_t)(f->cfg.demand_timeout_ns / NS_PER_MS));
	/* When bytes are being copied into its buffer, it ends after that; take it off the
	 * list, so that it is not found here again. */
	TAILQ_REMOVE(&f->deadlines, p, by_deadline);
	p->has_expired = true;
	pending_fail(f, p, -ETIMEDOUT, &err);
}

static int64_t fetcher_sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void *timer_main(void *arg)
{
	struct fetcher *f = arg;

	(void)pthread_mutex_lock(&f->lock);
	while (!f->stop) {
		struct pending *p = TAILQ_FIRST(&f->deadlines);
		int64_t now = clock_now_ns();
		int64_t until = p ? p->deadline_ns : INT64_MAX;

		if (is_bulk_full(f)) {
			share_look_bulk(f, now);
			until = fetcher_sooner(now + NS_PER_S, until);
		}
		if (f->look_ns && f->look_ns <= now)
			share_look(f, now);
		if (f->look_ns)
			until = fetcher_sooner(f->look_ns, until);
		if (f->trim_ns)
			trim_unused_buffers(f, now);
		if (f->trim_ns)
			until = fetcher_sooner(f->trim_ns, until);
		if (f->has_guests && detour_begin(f))
			until = fetcher_sooner(now + NS_PER_S, until);
		if (until == INT64_MAX)
			(void)pthread_cond_wait(&f->timer, &f->lock);
		else if (until > now)
			(void)cond_wait_until(&f->timer, &f->lock, until);
		else
			fetcher_expire(f, p);
	}
	(void)pthread_mutex_unlock(&f->lock);
	return NULL;
}

static int check_fetcher_config(const struct fetcher_config *cfg,
				struct error *err)
{
	if (!cfg->threads || cfg->threads > THREADS_MAX)
		return error_set(err, EINVAL, "%u fetch threads, want 1 to %u",
				 cfg->threads, THREADS_MAX);
	if (cfg->window_max < cfg->window)
		return error_set(err, EINVAL,
				 "a fetch window of %" PRIu32
				 " bytes with a maximum of %" PRIu32,
				 cfg->window, cfg->window_max);
	if (cfg->demand_timeout_ns <= 0)
		return error_set(err, EINVAL, "readers need a timeout");
	return 0;
}

static void fetcher_init(struct fetcher *f)
{

	(void)pthread_mutex_init(&f->lock, NULL);
	(void)pthread_cond_init(&f->work, NULL);
	cond_init(&f->timer);
	cond_init(&f->way);
	(void)pthread_cond_init(&f->quiet, NULL);
	(void)pthread_cond_init(&f->copied, NULL);
	LIST_INIT(&f->hosts);
	TAILQ_INIT(&f->deadlines);
	for (size_t i = 0; i < PRIORITIES; i++)
		TAILQ_INIT(&f->queue[i]);
}

void fetcher_free(struct fetcher *f)
{
	if (!f)
		return;
	(void)pthread_mutex_lock(&f->lock);
	f->stop = true;
	(void)pthread_cond_broadcast(&f->work);
	(void)pthread_cond_broadcast(&f->timer);
	(void)pthread_mutex_unlock(&f->lock);
	for (unsigned int i = 0; i < f->n_threads; i++)
		thread_join(&f->threads[i].thread);
	thread_join(&f->timer_thread);
	(void)pthread_cond_destroy(&f->way);
	(void)pthread_cond_destroy(&f->copied);
	(void)pthread_cond_destroy(&f->quiet);
	(void)pthread_cond_destroy(&f->timer);
	(void)pthread_cond_destroy(&f->work);
	(void)pthread_mutex_destroy(&f->lock);
	block_rooms_free(f->rooms);
	free(f);
}

int fetcher_new(const struct fetcher_config *cfg, struct fetcher **ret,
		struct error *err)
{
	struct fetcher *f;
	int rc = check_fetcher_config(cfg, err);

	if (rc < 0)
		return rc;
	f = calloc(1, sizeof(*f) + cfg->threads * sizeof(f->threads[0]));
	if (!f)
		return error_nomem(err);
	f->rooms = block_rooms_new();
	rc = f->rooms ? hash_seed_new(&f->seed, err) : error_nomem(err);
	if (rc < 0) {
		block_rooms_free(f->rooms);
		free(f);
		return rc;
	}
	f->cfg = *cfg;
	if (!f->cfg.width)
		f->cfg.width = WIDTH;
	atomic_store(&f->last_read_ns, clock_now_ns());
	/* Keep a quarter of the threads free for readers, however much bulk there is. */
	f->max_bulk =
		cfg->threads == 1 ? 1 : cfg->threads - (cfg->threads + 3) / 4;
	fetcher_init(f);
	rc = thread_start(&f->timer_thread, timer_main, f, err);
	while (rc == 0 && f->n_threads < cfg->threads) {
		struct fetch_thread *t = &f->threads[f->n_threads];

		t->transfer.f = f;
		rc = thread_start(&t->thread, fetch_main, &t->transfer, err);
		f->n_threads += rc == 0;
	}
	if (rc < 0)
		fetcher_free(f);
	else
		*ret = f;
	return rc;
}

int64_t fetcher_idle_ns(struct fetcher *f)
{
	bool is_waiting;

	(void)pthread_mutex_lock(&f->lock);
	is_waiting = !TAILQ_EMPTY(&f->deadlines);
	(void)pthread_mutex_unlock(&f->lock);
	return is_waiting ? 0 : clock_now_ns() - atomic_load(&f->last_read_ns);
}
