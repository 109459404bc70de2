// SPDX-License-Identifier: Apache-2.0
/* Work for the threads of the cache (cache_watch.c, cache_scrub.c) is noted here. */
#include "blockstore/cache.h"
#include "common/clock.h"
#include "common/mutex.h"

#define LOOKS 24 /* checks of a segment after its last put: two minutes */
/* Delay of a report of damage, so that damage found together is reported once. */
#define TELL_NS NS_PER_S

void watch_segment(struct cache *c, uint32_t segment)
{
	c->segments[segment].looks = LOOKS;
	c->segments[segment].settled = 0;
}

void watch_written(struct cache *c, uint32_t page)
{
	watch_segment(c, page / c->segment_pages);
}

void watch_soon(struct cache *c)
{
	(void)pthread_mutex_lock(&c->space);
	c->is_soon = true;
	(void)pthread_cond_broadcast(&c->stopping);
	(void)pthread_mutex_unlock(&c->space);
}

void scrub_tell_soon(struct cache *c)
{
	int64_t at_ns = clock_now_ns() + TELL_NS;

	if (c->tell_ns && c->tell_ns <= at_ns)
		return;
	c->tell_ns = at_ns;
	(void)pthread_cond_broadcast(&c->stopping);
}

bool freeze_is_any(struct cache *c)
{
	AUTO_UNLOCK held = mutex_hold(&c->space);

	return c->n_frozen > 0;
}
