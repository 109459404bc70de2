// SPDX-License-Identifier: Apache-2.0
#include "objects/store/retry.h"

#include "common/backoff.h"
#include "common/clock.h"

#define AFTER_MAX_MS 30000u /* longest wait that a server may ask for */

static const struct backoff backoff = { .first_ms = 50, .most_ms = 5000 };

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

bool retry_again(struct retry_budget *r, const struct retry_verdict *v,
		 const struct error *why)
{
	uint64_t least_ms =
		v->after_ms < AFTER_MAX_MS ? v->after_ms : AFTER_MAX_MS;
	int64_t now = clock_now_ns(), until;

	if (why && v->can_retry)
		store_note_failure(r->store, why);

	if (!v->can_retry || pace_level(r->pace) == PACE_STOP ||
	    now >= retry_until(r) ||
	    (v->most_tries && r->n + 1 >= v->most_tries))
		return false;
	atomic_fetch_add(&r->store->count.n_retries, 1);
	if (v->at_once && r->n == 0) {
		r->n++;
		return true;
	}
	r->n++;
	until = now + backoff_ns(&backoff, r->n, least_ms);
	if (until >= retry_until(r))
		return false;
	return backoff_wait(until, r->pace) == 0;
}
