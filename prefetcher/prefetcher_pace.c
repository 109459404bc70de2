// SPDX-License-Identifier: Apache-2.0
/* Reasons for a prefetch to wait: readers, other images, pressure, a rate. Also its queue. */
#include <errno.h>

#include "common/clock.h"
#include "prefetcher/prefetch.h"

#define PRESSURE_POLL_NS (500 * NS_PER_MS)
/* interval of checks whether readers are idle */
#define IDLE_POLL_NS (100 * NS_PER_MS)
/* interval of checks whether another image's hot set is complete */
#define HOT_POLL_NS (20 * NS_PER_MS)
/* A hot set without a block for so long does not delay the rest of others any more: its
 * registry may be dead. */
#define HOT_STALL_NS (5 * NS_PER_S)
/* A hot set delays others for no longer than this: its registry may be very slow. */
#define HOT_FIRST_NS (30 * NS_PER_S)
#define PAUSE_MAX_NS NS_PER_S
/* longest wait of damaged blocks for memory */
#define REPAIR_NS (30 * NS_PER_S)
#define NEVER INT64_MAX

/* How much longer a hot set goes before the rest of other images, which check again then. */
static int64_t get_hot_time_left(const struct prefetch *p, int64_t now)
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
		if (p && get_hot_time_left(p, now) > longest)
			longest = get_hot_time_left(p, now);
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

	if (p->settle && idle_ns == PREFETCH_HELD) {
		p->held_ns = 0;
		return IDLE_POLL_NS;
	}
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

/* Note that pressure begins or ends. With the lock. */
static void note_pressure(struct prefetch *p, bool starved,
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

/* Must the prefetch wait because of pressure? With the lock. Containers read wrong bytes
 * until damaged blocks are put again: these need no room, and wait only a short time for
 * memory. */
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
	note_pressure(p, starved, &why);
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
	/* There are two kinds of workers, and one of the right kind must wake up. */
	(void)pthread_cond_broadcast(&all->work);
}

void prefetcher_dequeue(struct prefetcher *all, struct prefetch *p)
{
	TAILQ_REMOVE(&all->queue[p->task], p, queue);
	p->queued = false;
	(void)pthread_cond_broadcast(&all->work);
}
