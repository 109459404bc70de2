// SPDX-License-Identifier: Apache-2.0
/* Threads of all prefetches, whose turn it is, and what makes bulk wait. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/cond.h"
#include "prefetcher/prefetch.h"

#define PRESSURE_POLL_NS (500 * NS_PER_MS)
#define IDLE_POLL_NS (100 * NS_PER_MS) /* are the readers idle now? */
#define HOT_POLL_NS (20 * NS_PER_MS)   /* is the other's hot set there? */
/* Without a block for so long, a hot set does not keep the rest of others waiting:
 * its registry may be dead. */
#define HOT_STALL_NS (5 * NS_PER_S)
/* And none does for longer: its registry may trickle. */
#define HOT_FIRST_NS (30 * NS_PER_S)
#define TURN_NS (10 * NS_PER_S)
#define TURN_DOUBLINGS 6u
#define PAUSE_MAX_NS NS_PER_S
#define REPAIR_NS (30 * NS_PER_S) /* what is damaged waits for memory */
#define NEVER INT64_MAX

/* ---------------------------------------------------------------- turns --- */

/* For how long a hot set goes before the rest of others, which look again then. */
static int64_t hot_left(const struct prefetch *p, int64_t now)
{
	int64_t first = HOT_FIRST_NS - (now - p->hot_begun_ns);
	int64_t stall = HOT_STALL_NS - (now - p->hot_moved_ns);
	int64_t left = first < stall ? first : stall;

	return left > 0 ? left : 0;
}

/* For how long another image's hot set, on its way or about to be, goes before the
 * rest; 0: none does. */
static int64_t hot_wait(const struct prefetcher *all, int64_t now)
{
	const struct prefetch *p;
	int64_t longest = 0;

	for (unsigned int i = 0; i < HOT_WORKERS; i++) {
		p = all->workers[i].now;
		if (p && hot_left(p, now) > longest)
			longest = hot_left(p, now);
	}
	if (longest > 0)
		return longest;
	TAILQ_FOREACH(p, &all->queue[TASK_HOT], queue)
	if (p->due_ns <= now &&
	    (!p->hot_begun_ns || now - p->hot_begun_ns < HOT_FIRST_NS))
		return HOT_POLL_NS;
	return 0;
}

/* For how long the rest of `p` waits for a start, of whatever image, that may be
 * under way.  `idle_ns`: of the readers. */
static int64_t settle_wait(const struct prefetcher *all, struct prefetch *p,
			   int64_t idle_ns, int64_t now)
{
	const struct prefetch_limits *l = &all->cfg.limits;

	if (!p->settle ||
	    (idle_ns >= l->settle_ns && now - all->start_ns >= l->settle_ns)) {
		p->held_ns = 0;
		return 0;
	}
	if (!p->held_ns)
		p->held_ns = now;
	return now - p->held_ns < l->settle_max_ns ? IDLE_POLL_NS : 0;
}

/* Nanoseconds until `p` may begin. */
static int64_t wait_of(const struct prefetcher *all, struct prefetch *p,
		       int64_t idle_ns, int64_t now)
{
	if (p->due_ns > now)
		return p->due_ns - now;
	if (p->task == TASK_HOT)
		return 0;
	/* Its end wakes us. */
	if (hot_wait(all, now) > 0)
		return hot_wait(all, now);
	return settle_wait(all, p, idle_ns, now);
}

static int64_t idle_of_readers(const struct prefetcher *all)
{
	return all->cfg.idle_ns ? all->cfg.idle_ns(all->cfg.arg) : NEVER;
}

/* Whose turn it is, of those that had the fewest the first; or NULL and how long to
 * wait for one. */
static struct prefetch *pick(struct prefetcher *all, enum task task,
			     int64_t idle_ns, int64_t *ret_wait)
{
	int64_t now = clock_now_ns();
	struct prefetch *p, *best = NULL;

	*ret_wait = NEVER;
	TAILQ_FOREACH(p, &all->queue[task], queue)
	{
		int64_t wait = wait_of(all, p, idle_ns, now);

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
 * How long the worker's image may go on while others wait: so long that a block comes
 * sometime, however slowly, but one that had fewer turns does not wait for that.
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

/* End the turns that are over.  Returns when to look again. */
static int64_t end_turns(struct prefetcher *all)
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

void prefetcher_enqueue(struct prefetcher *all, struct prefetch *p)
{
	p->queued = true;
	TAILQ_INSERT_TAIL(&all->queue[p->task], p, queue);
	/* Of both kinds of workers, the right one must wake up. */
	(void)pthread_cond_broadcast(&all->work);
}

void prefetcher_dequeue(struct prefetcher *all, struct prefetch *p)
{
	TAILQ_REMOVE(&all->queue[p->task], p, queue);
	p->queued = false;
	(void)pthread_cond_broadcast(&all->work);
}

/* Tell whoever began it that it is over, or put off.  With the lock, released
 * meanwhile. */
static void tell(struct prefetcher *all, struct prefetch *p, bool is_done,
		 const struct error *err)
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

/* With the lock, released meanwhile. */
static void run_one(struct worker *w, struct prefetch *p)
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
	tell(all, p, is_done, &err);
	p->running = false;
	/* While it was told of, somebody may have wanted an end of this run. */
	__atomic_store_n(&p->cancel, p->n_stopping > 0, __ATOMIC_RELAXED);
	if (p->again)
		p->task = prefetch_first_task(p);
	if ((p->again || p->requeue) && !p->n_stopping)
		prefetcher_enqueue(all, p);
	p->again = p->requeue = false;
	(void)pthread_cond_broadcast(&p->changed);
	(void)pthread_cond_broadcast(&all->work);
}

/* With the lock, released meanwhile. */
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
			idle = idle_of_readers(all);
			(void)pthread_mutex_lock(&all->lock);
		}
		p = all->stop ? NULL : pick(all, w->task, idle, &wait);
		if (p)
			run_one(w, p);
		else if (!all->stop)
			wait_for_work(all, wait);
	}
	(void)pthread_mutex_unlock(&all->lock);
	return NULL;
}

/* All workers may be busy, so this is a thread of its own. */
static void *turns_main(void *arg)
{
	struct prefetcher *all = arg;

	(void)pthread_mutex_lock(&all->lock);
	while (!all->stop)
		wait_for_work(all, end_turns(all));
	(void)pthread_mutex_unlock(&all->lock);
	return NULL;
}

/* ------------------------------------------------------------- waiting --- */

/* With the lock: note that pressure begins or ends. */
static void set_starved(struct prefetch *p, bool starved,
			const struct error *why)
{
	if (starved)
		p->error = *why;
	if (p->starved == starved)
		return;
	p->starved = starved;
	p->n_pauses += starved;
	(void)pthread_cond_broadcast(&p->changed);
}

/* With the lock.  Containers read wrong bytes until what is damaged is put in its place
 * again: that needs no room, and memory is not waited for for long. */
static bool is_starved(struct prefetch *p, bool is_short,
		       const struct error *why, int64_t now)
{
	int64_t most = p->all->cfg.limits.repair_ns;

	if (!is_short || p->needs_room) {
		p->short_ns = 0;
		return is_short;
	}
	if (why->code == ENOSPC)
		return false;
	if (!p->short_ns)
		p->short_ns = now;
	return now - p->short_ns < (most ? most : REPAIR_NS);
}

int64_t prefetcher_pause(void *prefetch, uint64_t next_bytes)
{
	struct prefetch *p = prefetch;
	struct prefetcher *all = p->all;
	struct error why = ERROR_INIT;
	int64_t wait = 0, idle_ns = idle_of_readers(all), now = clock_now_ns();
	bool starved =
		all->cfg.pressure && all->cfg.pressure(all->cfg.arg, &why);

	(void)pthread_mutex_lock(&all->lock);
	starved = is_starved(p, starved, &why, now);
	set_starved(p, starved, &why);
	if (starved)
		wait = PRESSURE_POLL_NS;
	else if (p->task == TASK_COLD && hot_wait(all, now) > 0)
		wait = HOT_POLL_NS;
	else if (p->task == TASK_COLD)
		wait = settle_wait(all, p, idle_ns, now);
	if (wait == 0 && p->task == TASK_HOT && p->is_predicted) {
		(void)pthread_mutex_unlock(&all->lock);
		wait = prefetch_proof_wait(p, next_bytes, now);
		(void)pthread_mutex_lock(&all->lock);
	}
	if (wait == 0)
		wait = limit_take(&all->limits[p->task], next_bytes, now);
	(void)pthread_mutex_unlock(&all->lock);
	return wait < PAUSE_MAX_NS ? wait : PAUSE_MAX_NS;
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

static void init(struct prefetcher *all, const struct prefetcher_config *cfg)
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
	init(all, cfg);
	rc = start_threads(all, err);
	if (rc < 0)
		prefetcher_free(all);
	else
		*ret = all;
	return rc;
}
