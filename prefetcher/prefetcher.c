// SPDX-License-Identifier: Apache-2.0
/* The threads that all prefetches share, and which prefetch gets one next. */
#include <errno.h>
#include <limits.h>
#include <time.h>

#include "common/clock.h"
#include "common/cond.h"
#include "prefetcher/prefetch.h"

#define TURN_NS (10 * NS_PER_S)
#define TURN_DOUBLINGS 6u
#define NEVER INT64_MAX

/* ---------------------------------------------------------------- turns --- */

/* Nanoseconds until `p` may begin. */
static int64_t get_prefetch_wait_ns(const struct prefetcher *all,
				    struct prefetch *p, int64_t idle_ns,
				    int64_t now)
{
	if (p->due_ns > now)
		return p->due_ns - now;
	if (p->task == TASK_HOT)
		return 0;
	/* The end of that hot set wakes this thread. */
	if (prefetcher_hot_wait(all, now) > 0)
		return prefetcher_hot_wait(all, now);
	return prefetcher_settle_wait(all, p, idle_ns, now);
}

/* Find the prefetch to run next, the one with fewest turns; NULL and the time to wait if
 * there is none. */
static struct prefetch *pick_prefetch(struct prefetcher *all, enum task task,
				      int64_t idle_ns, int64_t *ret_wait)
{
	int64_t now = clock_now_ns();
	struct prefetch *p, *best = NULL;

	*ret_wait = NEVER;
	TAILQ_FOREACH(p, &all->queue[task], queue)
	{
		int64_t wait = get_prefetch_wait_ns(all, p, idle_ns, now);

		if (wait == 0 && (!best || p->n_turns < best->n_turns))
			best = p;
		if (wait < *ret_wait)
			*ret_wait = wait;
	}
	return best;
}

static bool has_free_worker(const struct prefetcher *all, enum task task)
{
	for (unsigned int i = 0; i < all->n_workers; i++) {
		if (all->workers[i].task == task && !all->workers[i].now)
			return true;
	}
	return false;
}

/*
 * How long the worker's image may go on while others wait: long enough for a block to arrive,
 * however slowly; but images with fewer turns do not wait that long.
 */
static int64_t turn_ns(const struct prefetcher *all, const struct worker *w,
		       int64_t now)
{
	int64_t ns =
		all->cfg.limits.turn_ns ? all->cfg.limits.turn_ns : TURN_NS;
	unsigned int n = w->now->n_turns;
	unsigned int fewest = UINT_MAX;
	const struct prefetch *p;

	TAILQ_FOREACH(p, &all->queue[w->task], queue)
	if (p->due_ns <= now && p->n_turns < fewest)
		fewest = p->n_turns;
	if (fewest == UINT_MAX || has_free_worker(all, w->task))
		return NEVER;
	if (fewest < n)
		return ns;
	return ns << (n < TURN_DOUBLINGS ? n : TURN_DOUBLINGS);
}

/* End the turns that have lasted long enough. Returns when to check again. */
static int64_t end_long_turns(struct prefetcher *all)
{
	int64_t now = clock_now_ns(), next = NEVER;

	for (unsigned int i = 0; i < all->n_workers; i++) {
		struct worker *w = &all->workers[i];
		int64_t ns, left;

		if (!w->now || w->now->yields)
			continue;
		ns = turn_ns(all, w, now);
		if (ns == NEVER)
			continue;
		left = w->since_ns + ns - now;
		if (left > 0) {
			next = left < next ? left : next;
			continue;
		}
		w->now->yields = true;
		__atomic_store_n(&w->now->cancel, true, __ATOMIC_RELAXED);
		(void)pthread_cond_broadcast(&w->now->changed);
	}
	return next;
}

/* Report to the user that a prefetch has ended, or was put off. With the lock, which is
 * released meanwhile. */
static void report_prefetch_end(struct prefetcher *all, struct prefetch *p,
				bool is_done, const struct error *err)
{
	int64_t retry_ns = p->due_ns - clock_now_ns();
	bool has_failed = p->requeue && (p->state == PREFETCH_FAILED ||
					 p->state == PREFETCH_RETRYING);

	(void)pthread_mutex_unlock(&all->lock);
	if (is_done && p->done)
		p->done(p->arg);
	if (has_failed && p->failed)
		p->failed(p->arg, err, retry_ns);
	(void)pthread_mutex_lock(&all->lock);
}

static void begin_turn(struct worker *w, struct prefetch *p)
{
	w->now = p;
	w->since_ns = clock_now_ns();
	p->running = true;
	p->state = PREFETCH_HOT;
	p->hot_moved_ns = w->since_ns;
	if (w->task == TASK_HOT && !p->hot_begun_ns)
		p->hot_begun_ns = w->since_ns;
}

/* Run a prefetch once. With the lock, which is released meanwhile. */
static void run_prefetch_once(struct worker *w, struct prefetch *p)
{
	struct prefetcher *all = w->p;
	struct error err = ERROR_INIT;
	enum task task = p->task;
	bool is_done;
	int rc;

	prefetcher_dequeue(all, p);
	begin_turn(w, p);
	(void)pthread_mutex_unlock(&all->lock);
	rc = prefetch_run(p, task, &err);
	(void)pthread_mutex_lock(&all->lock);
	w->now = NULL;
	is_done = prefetch_conclude(p, task, rc, &err);
	(void)pthread_cond_broadcast(&p->changed);
	report_prefetch_end(all, p, is_done, &err);
	p->running = false;
	/* During the report another thread may have asked to stop this run. */
	__atomic_store_n(&p->cancel, p->n_stopping > 0, __ATOMIC_RELAXED);
	if (p->again)
		p->task = prefetch_first_task(p);
	if ((p->again || p->requeue) && !p->n_stopping)
		prefetcher_enqueue(all, p);
	p->again = p->requeue = false;
	(void)pthread_cond_broadcast(&p->changed);
	(void)pthread_cond_broadcast(&all->work);
}

/* Wait for work. With the lock, which is released meanwhile. */
static void wait_for_work(struct prefetcher *all, int64_t wait_ns)
{

	if (wait_ns == NEVER) {
		(void)pthread_cond_wait(&all->work, &all->lock);
		return;
	}
	(void)cond_wait_until(&all->work, &all->lock, clock_now_ns() + wait_ns);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct prefetcher *all = w->p;
	int64_t wait = 0, idle = 0;
	struct prefetch *p;

	(void)pthread_mutex_lock(&all->lock);
	while (!all->stop) {
		if (w->task == TASK_COLD &&
		    !TAILQ_EMPTY(&all->queue[TASK_COLD])) {
			(void)pthread_mutex_unlock(&all->lock);
			idle = prefetcher_idle_ns(all);
			(void)pthread_mutex_lock(&all->lock);
		}
		p = all->stop ? NULL : pick_prefetch(all, w->task, idle, &wait);
		if (p)
			run_prefetch_once(w, p);
		else if (!all->stop)
			wait_for_work(all, wait);
	}
	(void)pthread_mutex_unlock(&all->lock);
	return NULL;
}

/* Ends turns; a separate thread, as all workers may be busy. */
static void *turns_main(void *arg)
{
	struct prefetcher *all = arg;

	(void)pthread_mutex_lock(&all->lock);
	while (!all->stop)
		wait_for_work(all, end_long_turns(all));
	(void)pthread_mutex_unlock(&all->lock);
	return NULL;
}

/* --------------------------------------------------------- new and free --- */

static int check_config(const struct prefetch_limits *l, struct error *err)
{
	if (!l->hot_streams || !l->cold_streams)
		return error_set(err, EINVAL, "prefetch needs streams");
	if (l->cold_rate > LIMIT_RATE_MAX)
		return error_set(err, EINVAL,
				 "a rate of prefetch is at most 16G a second");
	return 0;
}

static void stop_workers(struct prefetcher *all)
{
	(void)pthread_mutex_lock(&all->lock);
	all->stop = true;
	(void)pthread_cond_broadcast(&all->work);
	(void)pthread_mutex_unlock(&all->lock);
	for (unsigned int i = 0; i < all->n_workers; i++)
		thread_join(&all->workers[i].thread);
	thread_join(&all->turns);
}

void prefetcher_free(struct prefetcher *all)
{
	if (!all)
		return;
	stop_workers(all);
	(void)pthread_cond_destroy(&all->work);
	(void)pthread_mutex_destroy(&all->lock);
	free(all);
}

static void init_prefetcher(struct prefetcher *all,
			    const struct prefetcher_config *cfg)
{

	all->cfg = *cfg;
	all->limits[TASK_COLD].rate = cfg->limits.cold_rate;
	(void)pthread_mutex_init(&all->lock, NULL);
	cond_init(&all->work);
	for (size_t i = 0; i < TASKS; i++)
		TAILQ_INIT(&all->queue[i]);
}

static int start_threads(struct prefetcher *all, struct error *err)
{
	int rc = 0;

	while (rc == 0 && all->n_workers < ARRAY_SIZE(all->workers)) {
		struct worker *w = &all->workers[all->n_workers];

		w->p = all;
		w->task = all->n_workers < HOT_WORKERS ? TASK_HOT : TASK_COLD;
		rc = thread_start(&w->thread, worker_main, w, err);
		all->n_workers += rc == 0;
	}
	return rc < 0 ? rc : thread_start(&all->turns, turns_main, all, err);
}

int prefetcher_new(const struct prefetcher_config *cfg, struct prefetcher **ret,
		   struct error *err)
{
	struct prefetcher *all;
	int rc = check_config(&cfg->limits, err);

	if (rc < 0)
		return rc;
	all = calloc(1, sizeof(*all));
	if (!all)
		return error_nomem(err);
	init_prefetcher(all, cfg);
	rc = start_threads(all, err);
	if (rc < 0)
		prefetcher_free(all);
	else
		*ret = all;
	return rc;
}
