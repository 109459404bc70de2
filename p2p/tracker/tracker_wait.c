// SPDX-License-Identifier: Apache-2.0
/*
 * Readers that wait for pieces which other nodes are said to read. Such claims may be untrue, and
 * a lease may be held without end: so a node that asked for a piece as demand again and again is
 * not refused for ever.
 */
#include "p2p/tracker/tracker_book.h"

/* Waiting pieces remembered for a node; for further ones the node's own time limit applies. */
#define WAITS_MAX 8u

struct reader_wait {
	uint32_t piece; /* NONE: unused */
	/* Low bits of the first and last refusal's time. */
	uint32_t since_ms, asked_ms;
};

static uint32_t time_in_ms(int64_t now)
{
	return (uint32_t)(now / MS);
}

/* Time within which a node with a waiting reader asks again. */
static int64_t max_reader_retry_ns(const struct tracker *t,
				   const struct tracker_image *i)
{
	int64_t retry = (int64_t)i->n_who * RETRY_PER_MEMBER;

	if (retry < t->cfg.interval_ns)
		retry = t->cfg.interval_ns;
	return 2 * retry;
}

static bool wait_is_current(const struct tracker *t,
			    const struct swarm_member *m,
			    const struct reader_wait *w, int64_t now)
{
	return w->piece != NONE &&
	       (uint32_t)(time_in_ms(now) - w->asked_ms) * MS <=
		       max_reader_retry_ns(t, m->image);
}

static struct reader_wait *wait_find(const struct swarm_member *m,
				     uint32_t piece)
{
	for (size_t k = 0; m->waits && k < WAITS_MAX; k++)
		if (m->waits[k].piece == piece)
			return &m->waits[k];
	return NULL;
}

bool wait_is_over(const struct tracker *t, const struct swarm_member *m,
		  uint32_t piece, int64_t now)
{
	const struct reader_wait *w = wait_find(m, piece);

	return w && wait_is_current(t, m, w, now) &&
	       (uint32_t)(time_in_ms(now) - w->since_ms) * MS >=
		       t->cfg.demand_done_ns;
}

/* Find an entry that is unused, or whose reader stopped asking. */
static struct reader_wait *wait_unused(const struct tracker *t,
				       struct swarm_member *m, int64_t now)
{
	if (!m->waits) {
		m->waits = malloc(WAITS_MAX * sizeof(*m->waits));
		for (size_t k = 0; m->waits && k < WAITS_MAX; k++)
			m->waits[k] = (struct reader_wait){ .piece = NONE };
	}
	for (size_t k = 0; m->waits && k < WAITS_MAX; k++)
		if (!wait_is_current(t, m, &m->waits[k], now))
			return &m->waits[k];
	return NULL;
}

int64_t wait_refused(const struct tracker *t, struct swarm_member *m,
		     uint32_t piece, int64_t now)
{
	struct reader_wait *w = wait_find(m, piece);

	if (!w || !wait_is_current(t, m, w, now)) {
		if (!w)
			w = wait_unused(t, m, now);
		if (!w)
			return INT64_MAX;
		*w = (struct reader_wait){ .piece = piece,
					   .since_ms = time_in_ms(now) };
	}
	w->asked_ms = time_in_ms(now);
	return now + t->cfg.demand_done_ns -
	       (uint32_t)(time_in_ms(now) - w->since_ms) * MS;
}

void wait_end(struct swarm_member *m, uint32_t piece)
{
	struct reader_wait *w = wait_find(m, piece);

	if (w)
		w->piece = NONE;
}

void piece_awaited(struct tracker_piece *p, const struct swarm_member *m,
		   int64_t now)
{
	if (p->held_by == m->node)
		return;
	p->is_awaited = 1;
	p->awaited_ms = time_in_ms(now);
}

void piece_leased(struct tracker_piece *p, const struct swarm_member *m)
{
	p->is_wasted = p->held_by == m->node;
	p->held_by = m->node;
	p->is_awaited = 0;
}

void piece_ran_out(struct tracker_piece *p, const struct swarm_member *m)
{
	if (p->held_by == m->node)
		p->is_wasted = 1;
}

int64_t piece_kept_until(const struct tracker *t, const struct tracker_piece *p,
			 const struct swarm_member *m, int64_t now)
{
	int64_t left;

	if (!p->is_awaited || !p->is_wasted || p->held_by != m->node)
		return 0;
	left = max_reader_retry_ns(t, m->image) -
	       (uint32_t)(time_in_ms(now) - p->awaited_ms) * MS;
	return left > 0 ? now + left : 0;
}
