// SPDX-License-Identifier: Apache-2.0
/*
 * What is wanted: demand by deadline, and two orders of which a window is open.
 * The hot order's window moves along the trace.  The cold order is shuffled once,
 * so that its window is a sample of the rest, and the rarest of a sample is taken.
 */
#include <errno.h>
#include <string.h>

#include "p2p/swarm_priv.h"

#define WINDOW_MIN 64u
#define WINDOW_MAX 4096u
#define IN(o) ((uint8_t)((o)->flag << 5)) /* flag: it is in the window */

static struct order *order_of(struct swarm *s, enum source_priority priority)
{
	return priority == SOURCE_HOT ? &s->hot : &s->cold;
}

void order_refill(struct swarm *s, struct order *o)
{
	while (o->n_window < o->width && o->next < o->n) {
		uint32_t piece = o->pieces[o->next++];
		struct piece *p = &s->pieces[piece];

		if (!(p->flags & o->flag) || p->flags & (PIECE_HERE | IN(o)) ||
		    p->flight)
			continue;
		p->flags |= IN(o);
		o->window[o->n_window++] = piece;
	}
}

static void order_return(struct order *o, struct piece *p, uint32_t piece)
{
	if (!(p->flags & o->flag) || p->flags & (PIECE_HERE | IN(o)))
		return;
	if (o->n_window == o->room) {
		o->next = 0; /* it is found again where it was */
		return;
	}
	p->flags |= IN(o);
	o->window[o->n_window++] = piece;
}

void swarm_want_again(struct swarm *s, uint32_t piece)
{
	order_return(&s->hot, &s->pieces[piece], piece);
	order_return(&s->cold, &s->pieces[piece], piece);
}

bool order_is_asked(const struct order *o)
{
	return o->next == o->n && o->n_window == 0;
}

/* -------------------------------------------------------------------- demand --- */

static size_t demand_index(const struct swarm *s, uint32_t piece)
{
	size_t i = 0;

	while (i < s->n_demands && s->demands[i].piece != piece)
		i++;
	return i;
}

const struct demand *demand_of(const struct swarm *s, uint32_t piece)
{
	size_t i = demand_index(s, piece);

	return i < s->n_demands ? &s->demands[i] : NULL;
}

void demand_remove(struct swarm *s, uint32_t piece)
{
	size_t i;

	if (!(s->pieces[piece].flags & PIECE_DEMAND))
		return;
	i = demand_index(s, piece);
	s->pieces[piece].flags &= (uint8_t)~PIECE_DEMAND;
	memmove(&s->demands[i], &s->demands[i + 1],
		(--s->n_demands - i) * sizeof(*s->demands));
}

static int demand_room(struct swarm *s)
{
	size_t room = s->demands_room ? 2 * s->demands_room : 16;
	struct demand *more;

	if (s->n_demands < s->demands_room)
		return 0;
	if (s->n_demands == SWARM_DEMANDS_MAX)
		return -ENOSPC;
	more = realloc(s->demands, room * sizeof(*more));
	if (!more)
		return -ENOMEM;
	s->demands = more;
	s->demands_room = room;
	return 0;
}

static void demand_insert(struct swarm *s, struct demand d)
{
	size_t i = s->n_demands;

	while (i > 0 && s->demands[i - 1].first > d.first)
		i--;
	memmove(&s->demands[i + 1], &s->demands[i],
		(s->n_demands++ - i) * sizeof(d));
	s->demands[i] = d;
	s->pieces[d.piece].flags |= PIECE_DEMAND;
}

int swarm_demand(struct swarm *s, uint32_t piece, int64_t now, int64_t deadline)
{
	struct demand d = { piece, now, deadline, deadline };
	int rc;

	if (piece >= s->cfg.n_pieces)
		return -EINVAL;
	if (s->pieces[piece].flags & PIECE_HERE)
		return 0;
	if (s->pieces[piece].flags & PIECE_DEMAND) {
		d = s->demands[demand_index(s, piece)];
		if (deadline < d.first)
			d.first = deadline;
		if (deadline > d.deadline)
			d.deadline = deadline;
		demand_remove(s, piece);
	}
	rc = demand_room(s);
	if (rc < 0)
		return rc;
	demand_insert(s, d);
	swarm_pump(s, now);
	return 0;
}

/* -------------------------------------------------------------------- orders --- */

static void order_forget(struct swarm *s, struct order *o)
{
	for (uint32_t i = 0; i < o->n; i++)
		s->pieces[o->pieces[i]].flags &= (uint8_t) ~(o->flag | IN(o));
	o->n = o->next = o->n_window = o->total = o->here = 0;
}

static int order_resize(struct order *o, uint32_t window, size_t n)
{
	uint32_t *pieces = malloc((n ? n : 1) * sizeof(*pieces));
	uint32_t *opened;

	if (!pieces)
		return -ENOMEM;
	free(o->pieces);
	o->pieces = pieces;
	if (o->flag == PIECE_COLD)
		return 0;
	o->width = window ? window : (uint32_t)(n / 20);
	if (o->width < WINDOW_MIN && !window)
		o->width = WINDOW_MIN;
	if (o->width > WINDOW_MAX)
		o->width = WINDOW_MAX;
	opened = malloc((o->width + FLIGHTS_MAX) * sizeof(*opened));
	if (!opened)
		return -ENOMEM;
	free(o->window);
	o->window = opened;
	o->room = o->width + FLIGHTS_MAX;
	return 0;
}

static void shuffle(struct swarm *s, struct order *o)
{
	for (uint32_t i = o->n; i > 1; i--) {
		uint32_t j = (uint32_t)(swarm_random(s) % i);
		uint32_t piece = o->pieces[i - 1];

		o->pieces[i - 1] = o->pieces[j];
		o->pieces[j] = piece;
	}
}

static void cancel_unwanted(struct swarm *s)
{
	uint16_t next;

	for (uint16_t i = s->first; i; i = next) {
		uint32_t piece = flight_at(s, i)->piece;

		next = flight_at(s, i)->next;
		if (s->pieces[piece].flags & PIECE_WANTED)
			continue;
		flight_cancel_all(s, piece);
		next = s->first; /* the next one may have been its twin */
	}
}

int swarm_want(struct swarm *s, enum source_priority priority,
	       const uint32_t *pieces, size_t n, int64_t now)
{
	struct order *o = order_of(s, priority);
	int rc;

	if (priority == SOURCE_DEMAND || n > s->cfg.n_pieces)
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		if (pieces[i] >= s->cfg.n_pieces)
			return -EINVAL;
	order_forget(s, o);
	rc = order_resize(o, s->lim.window, n);
	if (rc < 0) {
		cancel_unwanted(s);
		return rc;
	}
	for (size_t i = 0; i < n; i++) {
		struct piece *p = &s->pieces[pieces[i]];

		if (p->flags & o->flag)
			continue;
		o->total++;
		p->flags |= o->flag;
		o->here += p->flags & PIECE_HERE ? 1 : 0;
		o->pieces[o->n++] = pieces[i];
	}
	if (priority == SOURCE_COLD)
		shuffle(s, o);
	cancel_unwanted(s);
	order_refill(s, o);
	swarm_pump(s, now);
	return 0;
}

void swarm_forget(struct swarm *s, enum source_priority priority, int64_t now)
{
	if (priority == SOURCE_DEMAND) {
		while (s->n_demands)
			demand_remove(s, s->demands[0].piece);
	} else {
		order_forget(s, order_of(s, priority));
	}
	cancel_unwanted(s);
	swarm_pump(s, now);
}

void swarm_pause(struct swarm *s, bool paused, int64_t now)
{
	s->is_paused = paused;
	if (!paused)
		swarm_pump(s, now);
}

/* ------------------------------------------------------------ what came, went --- */

void swarm_satisfied(struct swarm *s, uint32_t piece)
{
	struct piece *p = &s->pieces[piece];

	demand_remove(s, piece);
	p->flags |= PIECE_HERE;
	p->failed = 0;
	s->have++;
	s->hot.here += p->flags & PIECE_HOT ? 1 : 0;
	s->cold.here += p->flags & PIECE_COLD ? 1 : 0;
	news_log(s, piece);
}

void swarm_have(struct swarm *s, uint32_t piece, int64_t now)
{
	if (piece >= s->cfg.n_pieces || s->pieces[piece].flags & PIECE_HERE)
		return;
	flight_cancel_all(s, piece);
	swarm_satisfied(s, piece);
	if (now - s->pumped >= PUMP_NS)
		swarm_pump(s, now);
}

void swarm_drop(struct swarm *s, uint32_t piece)
{
	struct piece *p;

	if (!swarm_has(s, piece))
		return;
	/* Whoever dropped it does not want it back. */
	p = &s->pieces[piece];
	if (p->flags & PIECE_HOT) {
		s->hot.here--;
		s->hot.total--;
	}
	if (p->flags & PIECE_COLD) {
		s->cold.here--;
		s->cold.total--;
	}
	p->flags &= (uint8_t) ~(PIECE_HERE | PIECE_WANTED);
	s->have--;
	news_log(s, piece);
}
