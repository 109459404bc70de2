// SPDX-License-Identifier: Apache-2.0
/* Reasons for a prefetch to wait: readers, other images, pressure, a rate; and its queue. */
#include <errno.h>

#include "common/clock.h"
#include "prefetcher/prefetch.h"

#define PRESSURE_POLL_NS (500 * NS_PER_MS)
#define IDLE_POLL_NS (100 * NS_PER_MS) /* are the readers idle now? */
#define HOT_POLL_NS (20 * NS_PER_MS)   /* is the other's hot set there? */
/* Without a block for so long, a hot set does not keep the rest of others waiting:
 * its registry may be dead. */
#define HOT_STALL_NS (5 * NS_PER_S)
/* And none does for longer: its registry may trickle. */
#define HOT_FIRST_NS (30 * NS_PER_S)
#define PAUSE_MAX_NS NS_PER_S
#define REPAIR_NS (30 * NS_PER_S) /* what is damaged waits for memory */
#define NEVER INT64_MAX

/* For how long a hot set goes before the rest of others, which look again then. */
static int64_t hot_left(const struct prefetch *p, int64_t now)
{
	int64_t first = HOT_FIRST_NS - (now - p->hot_begun_ns);
	int64_t stall = HOT_STALL_NS - (now - p->hot_moved_ns);
	int64_t left = first < stall ? first : stall;

	return left > 0 ? left : 0;
}

int64_t prefetcher_hot_wait(const struct prefetcher *all, int64_t now)
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

int64_t prefetcher_settle_wait(const struct prefetcher *all, struct prefetch *p,
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

int64_t prefetcher_idle_ns(const struct prefetcher *all)
{
	return all->cfg.idle_ns ? all->cfg.idle_ns(all->cfg.arg) : NEVER;
}

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
	int64_t wait = 0, idle_ns = prefetcher_idle_ns(all),
		now = clock_now_ns();
	bool starved =
		all->cfg.pressure && all->cfg.pressure(all->cfg.arg, &why);

	(void)pthread_mutex_lock(&all->lock);
	starved = is_starved(p, starved, &why, now);
	set_starved(p, starved, &why);
	if (starved)
		wait = PRESSURE_POLL_NS;
	else if (p->task == TASK_COLD && prefetcher_hot_wait(all, now) > 0)
		wait = HOT_POLL_NS;
	else if (p->task == TASK_COLD)
		wait = prefetcher_settle_wait(all, p, idle_ns, now);
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

void prefetcher_enqueue(struct prefetcher *all, struct prefetch *p)
{
	p->queued = true;
	TAILQ_INSERT_TAIL(&all->queue[p->task], p, queue);
	/* Workers are of two kinds, and the right one must wake up. */
	(void)pthread_cond_broadcast(&all->work);
}

void prefetcher_dequeue(struct prefetcher *all, struct prefetch *p)
{
	TAILQ_REMOVE(&all->queue[p->task], p, queue);
	p->queued = false;
	(void)pthread_cond_broadcast(&all->work);
}
