// SPDX-License-Identifier: Apache-2.0
/* Calls that links and the device share: the timer, messages, lots, entering and leaving. */
#include <stdlib.h>

#include "common/clock.h"
#include "p2p/rdma/rdma_priv.h"

#define MS ((int64_t)1000 * 1000)
#define TICK (20 * MS)
#define TICK_MAX (10000 * MS)

uint64_t rdma_random(struct rdma *r)
{
	uint64_t z = r->random += 0x9e3779b97f4a7c15u; /* splitmix64 */

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

int64_t rdma_jitter(struct rdma *r, int64_t ns)
{
	return ns + (int64_t)(rdma_random(r) % ((uint64_t)ns + 1));
}

void rdma_tell(struct rdma_link *l, const struct rdma_msg *m)
{
	uint8_t body[RDMA_BODY_MAX];
	size_t n = rdma_wire_put(body, m);

	if (!l->is_dead)
		l->r->cfg.events->tell(l->user, m->type, body, n);
}

void rdma_enter(struct rdma *r)
{
	loop_assert_here(r->cfg.loop);
	r->busy++;
}

void rdma_leave(struct rdma *r)
{
	struct rdma_link **at = &r->links;

	if (--r->busy > 0)
		return;
	while (*at) {
		struct rdma_link *l = *at;

		if (!l->is_dead) {
			at = &l->next;
			continue;
		}
		*at = l->next;
		free(l->peer);
		free(l);
	}
}

void rdma_wake(struct rdma *r, int64_t ns)
{
	int64_t now = clock_now_ns();

	ns = ns < TICK ? TICK : ns > TICK_MAX ? TICK_MAX : ns;
	if (r->timer_at && r->timer_at <= now + ns)
		return;
	/* Without memory for the event, the next call tries again. */
	if (loop_timer_start(r->cfg.loop, &r->timer, ns, NULL) == 0)
		r->timer_at = now + ns;
}
