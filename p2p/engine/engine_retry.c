// SPDX-License-Identifier: Apache-2.0
/*
 * Images for which a link has no room, here or at the peer: opened on it later, when other images
 * may have been closed.
 */
#include "common/clock.h"
#include "p2p/engine/engine_peer.h"

#define WAIT_NS (5 * NS_PER_S)
#define WAIT_MAX_NS (300 * NS_PER_S)
/* Images opened on a link at once; the others follow at the next check. */
#define AT_ONCE 32

static struct retry *retry_find(const struct link *l, const struct p2p_image *i)
{
	struct retry *r;

	LIST_FOREACH(r, &l->retries, by_link)
	if (r->i == i)
		return r;
	return NULL;
}

void retry_later(struct link *l, struct p2p_image *i)
{
	struct retry *r = retry_find(l, i);

	if (!r) {
		r = calloc(1, sizeof(*r));
		if (!r)
			return; /* without memory, rely on other links */
		r->i = i;
		LIST_INSERT_HEAD(&l->retries, r, by_link);
	}
	r->wait_ns = r->wait_ns ? 2 * r->wait_ns : WAIT_NS;
	if (r->wait_ns > WAIT_MAX_NS)
		r->wait_ns = WAIT_MAX_NS;
	r->at = clock_now_ns() + r->wait_ns;
}

void retry_drop(struct link *l, const struct p2p_image *i)
{
	struct retry *r, *next;

	for (r = LIST_FIRST(&l->retries); r; r = next) {
		next = LIST_NEXT(r, by_link);
		if (i && r->i != i)
			continue;
		LIST_REMOVE(r, by_link);
		free(r);
	}
}

void retries_check(struct p2p *p, int64_t now)
{
	struct retry *r;
	struct link *l;

	LIST_FOREACH(l, &p->links, all)
	{
		unsigned int n = 0;

		if (!l->is_up)
			continue;
		LIST_FOREACH(r, &l->retries, by_link)
		{
			if (r->at > now || n++ >= AT_ONCE)
				continue;
			/* Next attempt, if no answer comes. */
			r->at = now + r->wait_ns;
			link_open(l, r->i);
		}
	}
}
