// SPDX-License-Identifier: Apache-2.0
#include "objects/store/retry.h"

#include <sys/random.h>
#include <time.h>

#include "common/clock.h"

#define BACKOFF_MS 50u
#define BACKOFF_MAX_MS 5000u
#define STEP_NS 50000000LL /* in which a pace's stop is seen */

void retry_init(struct retry_budget *r, struct object_store *s,
		int64_t deadline_ns)
{
	*r = (struct retry_budget){ .store = s, .deadline_ns = deadline_ns };
	retry_progress(r);
}

void retry_progress(struct retry_budget *r)
{
	r->give_up_ns = clock_now_ns() + r->store->cfg.retry_ms * NS_PER_MS;
	r->n = 0;
}

int64_t retry_until(const struct retry_budget *r)
{
	if (r->deadline_ns && r->deadline_ns < r->give_up_ns)
		return r->deadline_ns;
	return r->give_up_ns;
}

/* How long the n-th wait is: half of it by chance, so that nodes that failed together
 * do not come back together. */
static int64_t wait_ns(const struct retry_budget *r,
		       const struct retry_verdict *v)
{
	uint32_t ms = BACKOFF_MS, chance = 0;

	for (unsigned int i = 1; i < r->n && ms < BACKOFF_MAX_MS; i++)
		ms *= 2;
	(void)getrandom(&chance, sizeof(chance), GRND_NONBLOCK);
	ms = ms / 2 + chance % (ms / 2 + 1);
	if (ms < v->after_ms)
		ms = v->after_ms + chance % (BACKOFF_MS + 1);
	return ms * NS_PER_MS;
}

bool retry_again(struct retry_budget *r, const struct retry_verdict *v)
{
	int64_t now = clock_now_ns(), until;

	if (!v->can_retry || pace_level(r->pace) == PACE_STOP ||
	    now >= retry_until(r))
		return false;
	atomic_fetch_add(&r->store->count.n_retries, 1);
	if (v->at_once && r->n == 0) {
		r->n++;
		return true;
	}
	r->n++;
	until = now + wait_ns(r, v);
	if (until >= retry_until(r))
		return false;
	while ((now = clock_now_ns()) < until) {
		int64_t next = now + STEP_NS < until ? now + STEP_NS : until;
		struct timespec t = clock_timespec(next);

		if (pace_level(r->pace) == PACE_STOP)
			return false;
		(void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
	}
	return true;
}
