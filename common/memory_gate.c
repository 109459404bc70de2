// SPDX-License-Identifier: Apache-2.0
#include "common/cond.h"
#include "common/memory_gate.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"

/* how often a waiting thread checks whether its pace says stop */
#define LOOK_NS INT64_C(50000000)

void memory_gate_init(struct memory_gate *g, uint64_t most, uint64_t most_each)
{

	*g = (struct memory_gate){ .most = most, .most_each = most_each };
	(void)pthread_mutex_init(&g->lock, NULL);
	cond_init(&g->given);
}

void memory_gate_fini(struct memory_gate *g)
{
	(void)pthread_cond_destroy(&g->given);
	(void)pthread_mutex_destroy(&g->lock);
}

static bool is_short(const struct memory_gate *g, uint64_t bytes)
{
	return bytes > g->most - g->used;
}

/* With the lock held: may this claim have `bytes` more, by both bounds? */
static bool memory_gate_fits(const struct memory_gate *g,
			     const struct memory_claim *c, uint64_t bytes)
{
	uint64_t used = 0;

	for (const struct memory_claim *i = g->first; i; i = i->next)
		used += strcmp(i->name, c->name) == 0 ? i->bytes : 0;
	return !is_short(g, bytes) && bytes <= g->most_each - used;
}

/* With the lock held: wait for a release of memory, `end`, or the next check of the pace. */
static int wait_for_release(struct memory_gate *g, struct pace *pace,
			    int64_t end)
{
	int64_t now = clock_now_ns();

	if (pace_level(pace) == PACE_STOP)
		return -ECANCELED;
	if (now >= end)
		return -EBUSY;
	(void)cond_wait_until(&g->given, &g->lock,
			      pace && end - now > LOOK_NS ? now + LOOK_NS
							  : end);
	return 0;
}

static void memory_gate_unlist(struct memory_gate *g,
			       const struct memory_claim *c)
{
	struct memory_claim **p;

	for (p = &g->first; *p != c; p = &(*p)->next)
		;
	*p = c->next;
}

int memory_claim_take(struct memory_claim *c, uint64_t bytes,
		      int64_t timeout_ns, struct error *err)
{
	int64_t end = clock_now_ns() + timeout_ns;
	struct memory_gate *g = c->gate;
	int rc = 0;

	if (g->turn) {
		rc = g->turn(c, err);
		c->bytes = rc < 0 ? 0 : bytes;
		return rc;
	}
	(void)pthread_mutex_lock(&g->lock);
	c->wants = bytes;
	c->next = g->first;
	g->first = c;
	while (!memory_gate_fits(g, c, bytes) && rc == 0)
		rc = wait_for_release(g, c->pace, end);
	c->wants = 0;
	if (rc == 0) {
		c->bytes = bytes;
		c->came = 0;
		c->waited_ns = 0;
		g->used += bytes;
	} else {
		memory_gate_unlist(g, c);
	}
	(void)pthread_mutex_unlock(&g->lock);
	if (rc == -ECANCELED)
		return error_set(err, ECANCELED, "not wanted any more");
	if (rc == -EBUSY)
		return error_set(err, EBUSY,
				 "%llu MiB of memory are not free: others use "
				 "them; try again",
				 (unsigned long long)(bytes >> 20));
	return 0;
}

void memory_claim_give(struct memory_claim *c)
{
	struct memory_gate *g = c->gate;

	if (!c->bytes)
		return;
	if (g->turn) {
		c->bytes = 0;
		return;
	}
	(void)pthread_mutex_lock(&g->lock);
	g->used -= c->bytes;
	c->bytes = 0;
	memory_gate_unlist(g, c);
	(void)pthread_cond_broadcast(&g->given);
	(void)pthread_mutex_unlock(&g->lock);
}

/* Does a claim wait for memory that this claim's release could give it? */
static bool is_claim_awaited(const struct memory_claim *c)
{
	struct memory_gate *g = c->gate;
	bool is = false;

	(void)pthread_mutex_lock(&g->lock);
	for (const struct memory_claim *i = g->first; i && !is; i = i->next)
		is = i->wants &&
		     (is_short(g, i->wants) || strcmp(i->name, c->name) == 0);
	(void)pthread_mutex_unlock(&g->lock);
	return is;
}

int memory_claim_came(struct memory_claim *c, uint64_t n, int64_t waited_ns,
		      struct error *err)
{
	uint64_t rate;

	if (!c->bytes || c->gate->turn)
		return 0;
	c->came += n;
	c->waited_ns += waited_ns;
	if (c->waited_ns < MEMORY_JUDGE_NS)
		return 0;
	rate = c->came / (uint64_t)(c->waited_ns / NS_PER_S);
	c->came = 0;
	c->waited_ns = 0;
	if (rate >= MEMORY_LEAST_RATE || !is_claim_awaited(c))
		return 0;
	return error_set(err, EBUSY,
			 "it came with %llu KiB/s, and others wait for its "
			 "%llu MiB of memory: %llu KiB/s are the least then; "
			 "try again",
			 (unsigned long long)(rate >> 10),
			 (unsigned long long)(c->bytes >> 20),
			 (unsigned long long)(MEMORY_LEAST_RATE >> 10));
}
