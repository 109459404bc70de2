// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/budget.h"

#include <errno.h>

#include "common/clock.h"

void budget_init(struct budget *b, uint64_t most, uint64_t most_ahead)
{
	pthread_condattr_t attr;

	*b = (struct budget){ .most = most, .most_ahead = most_ahead };
	(void)pthread_mutex_init(&b->lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&b->given, &attr);
	(void)pthread_condattr_destroy(&attr);
}

void budget_fini(struct budget *b)
{
	(void)pthread_cond_destroy(&b->given);
	(void)pthread_mutex_destroy(&b->lock);
}

static bool take(struct budget *b, uint64_t bytes)
{
	if (bytes > b->most - b->used)
		return false;
	b->used += bytes;
	if (b->used > b->peak)
		b->peak = b->used;
	return true;
}

bool budget_take(struct budget *b, uint64_t bytes)
{
	bool ok;

	(void)pthread_mutex_lock(&b->lock);
	ok = take(b, bytes);
	(void)pthread_mutex_unlock(&b->lock);
	return ok;
}

bool budget_take_ahead(struct budget *b, uint64_t bytes)
{
	bool ok;

	(void)pthread_mutex_lock(&b->lock);
	ok = !b->n_waiting && b->ahead + bytes <= b->most_ahead &&
	     take(b, bytes);
	if (ok)
		b->ahead += bytes;
	(void)pthread_mutex_unlock(&b->lock);
	return ok;
}

bool budget_wait(struct budget *b, uint64_t bytes, int64_t deadline_ns)
{
	struct timespec at = clock_timespec(deadline_ns);
	int64_t begun_ns = clock_now_ns();
	bool ok;

	(void)pthread_mutex_lock(&b->lock);
	b->n_waiting++;
	while (!(ok = take(b, bytes)))
		if (pthread_cond_timedwait(&b->given, &b->lock, &at) ==
		    ETIMEDOUT)
			break;
	if (!ok)
		ok = take(b, bytes);
	b->n_waiting--;
	b->waited_ns += (uint64_t)(clock_now_ns() - begun_ns);
	(void)pthread_mutex_unlock(&b->lock);
	return ok;
}

static void give(struct budget *b, uint64_t bytes, uint64_t ahead)
{
	(void)pthread_mutex_lock(&b->lock);
	b->used -= bytes;
	b->ahead -= ahead;
	(void)pthread_cond_broadcast(&b->given);
	(void)pthread_mutex_unlock(&b->lock);
}

void budget_give(struct budget *b, uint64_t bytes)
{
	give(b, bytes, 0);
}

void budget_give_ahead(struct budget *b, uint64_t bytes)
{
	give(b, bytes, bytes);
}
