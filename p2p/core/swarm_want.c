// SPDX-License-Identifier: Apache-2.0
/*
 * Pieces that the node wants: demand, sorted by deadline; the hot list, of which a window is open
 * that moves along the recorded order; and the cold list, split by whether a neighbour has the
 * piece.
 */
#include <errno.h>
#include <string.h>

#include "p2p/core/swarm_parts_priv.h"

#define WINDOW_MIN 64u
#define WINDOW_MAX 4096u

/* ------------------------------------------------------------------------ hot --- */

bool is_open(const struct piece *p, unsigned int wanted)
{
	return p->flags & wanted && !(p->flags & PIECE_HERE) && !p->flight;
}

void hot_refill(struct swarm *s)
{
	struct hot_pieces *h = &s->hot;

	while (h->n_window < h->width && h->next < h->n) {
		uint32_t piece = h->pieces[h->next++];
		struct piece *p = &s->pieces[piece];

		if (!is_open(p, PIECE_HOT) || p->flags & PIECE_IN_WINDOW)
			continue;
		p->flags |= PIECE_IN_WINDOW;
		h->window[h->n_window++] = piece;
	}
}

bool hot_leaves(struct swarm *s, uint32_t i)
{
	struct hot_pieces *h = &s->hot;
	struct piece *p = &s->pieces[h->window[i]];

	if (is_open(p, PIECE_HOT))
		return false;
	p->flags &= ~PIECE_IN_WINDOW;
	h->window[i] = h->window[--h->n_window];
	return true;
}

void hot_clean(struct swarm *s)
{
	for (uint32_t i = 0; i < s->hot.n_window;)
		i += hot_leaves(s, i) ? 0 : 1;
	hot_refill(s);
}

static void hot_window_add_again(struct swarm *s, uint32_t piece)
{
	struct piece *p = &s->pieces[piece];

	if (!is_open(p, PIECE_HOT) || p->flags & PIECE_IN_WINDOW)
		return;
	if (s->hot.n_window == s->hot.room) {
		s->hot.next = 0; /* the piece is found again when the list
		                  * is scanned anew */
		return;
	}
	p->flags |= PIECE_IN_WINDOW;
	s->hot.window[s->hot.n_window++] = piece;
}

/* ----------------------------------------------------------------------- cold --- */

void cold_offer(struct swarm *s, uint32_t piece)
{
	struct piece *p = &s->pieces[piece];
	struct cold *c = &s->cold;

	if (!is_open(p, PIECE_COLD))
		return;
	if (p->holders && !(p->flags & PIECE_IN_OFFERED)) {
		p->flags |= PIECE_IN_OFFERED;
		c->offered[c->n_offered++] = piece;
	}
	if (piece_is_unheld(s, p) && !(p->flags & PIECE_IN_UNHELD)) {
		p->flags |= PIECE_IN_UNHELD;
		c->unheld[c->n_unheld++] = piece;
	}
}

bool cold_offered_leaves(struct swarm *s, uint32_t i)
{
	uint32_t piece = s->cold.offered[i];
	struct piece *p = &s->pieces[piece];

	if (p->holders && is_open(p, PIECE_COLD))
		return false;
	p->flags &= ~PIECE_IN_OFFERED;
	s->cold.offered[i] = s->cold.offered[--s->cold.n_offered];
	cold_offer(s, piece);
	return true;
}

bool cold_unheld_leaves(struct swarm *s, uint32_t i)
{
	uint32_t piece = s->cold.unheld[i];
	struct piece *p = &s->pieces[piece];

	if (piece_is_unheld(s, p) && is_open(p, PIECE_COLD))
		return false;
	p->flags &= ~PIECE_IN_UNHELD;
	s->cold.unheld[i] = s->cold.unheld[--s->cold.n_unheld];
	cold_offer(s, piece);
	return true;
}

void swarm_want_again(struct swarm *s, uint32_t piece)
{
	hot_window_add_again(s, piece);
	cold_offer(s, piece);
}

bool is_all_asked(const struct swarm *s)
{
	return s->hot.next == s->hot.n && !s->hot.n_window &&
	       !s->cold.n_offered && !s->cold.n_unheld && !s->n_unsettled;
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
	s->pieces[piece].flags &= ~PIECE_DEMAND;
	memmove(&s->demands[i], &s->demands[i + 1],
		(--s->n_demands - i) * sizeof(*s->demands));
}

static int make_room_for_demand(struct swarm *s)
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

/* A peer that was asked for this piece among others might send another one. Ask it again for
 * this piece alone. */
static void release_for_reader(struct swarm *s, uint32_t piece)
{
	uint16_t index = s->pieces[piece].flight;
	struct piece_flight *f = index ? flight_at(s, index) : NULL;
	uint32_t first;

	if (!f || !f->n_others)
		return;
	first = f->piece;
	flight_cancel(s, f);
	swarm_want_again(s, first);
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
	rc = make_room_for_demand(s);
	if (rc < 0)
		return rc;
	demand_insert(s, d);
	release_for_reader(s, piece);
	swarm_pump(s, now);
	return 0;
}

void swarm_undemand(struct swarm *s, uint32_t piece)
{
	if (piece >= s->cfg.n_pieces)
		return;
	demand_remove(s, piece);
	if (!(s->pieces[piece].flags & PIECE_WANTED))
		flight_cancel_all(s, piece);
}

/* -------------------------------------------------------------------- orders --- */

static void piece_forget_want(struct swarm *s, enum source_priority priority)
{
	unsigned int flags =
		priority == SOURCE_HOT
			? PIECE_HOT | PIECE_IN_WINDOW
			: PIECE_COLD | PIECE_IN_OFFERED | PIECE_IN_UNHELD;

	for (uint32_t i = 0; i < s->cfg.n_pieces; i++)
		s->pieces[i].flags &= ~flags & FLAGS;
	if (priority == SOURCE_HOT) {
		s->hot.n = s->hot.next = s->hot.n_window = 0;
		s->hot.total = s->hot.here = 0;
	} else {
		s->cold.n_offered = s->cold.n_unheld = 0;
		s->cold.total = s->cold.here = 0;
	}
}

static int hot_resize(struct hot_pieces *h, uint32_t window, uint32_t n)
{
	uint32_t width = window ? window : n / 20;
	uint32_t *pieces, *opened;

	if (width < WINDOW_MIN && !window)
		width = WINDOW_MIN;
	if (width > WINDOW_MAX)
		width = WINDOW_MAX;
	pieces = malloc((n ? n : 1) * sizeof(*pieces));
	opened = malloc((WINDOW_MAX + FLIGHTS_MAX) * sizeof(*opened));
	if (!pieces || !opened) {
		free(pieces);
		free(opened);
		return -ENOMEM;
	}
	free(h->pieces);
	free(h->window);
	h->pieces = pieces;
	h->window = opened;
	h->width = width;
	h->room = WINDOW_MAX + FLIGHTS_MAX;
	return 0;
}

static void add_hot_piece(struct swarm *s, uint32_t piece)
{
	struct piece *p = &s->pieces[piece];

	if (p->flags & PIECE_HOT)
		return;
	p->flags |= PIECE_HOT;
	s->hot.total++;
	s->hot.here += p->flags & PIECE_HERE ? 1 : 0;
	s->hot.pieces[s->hot.n++] = piece;
}

static void add_cold_piece(struct swarm *s, uint32_t piece)
{
	struct piece *p = &s->pieces[piece];

	if (p->flags & PIECE_COLD)
		return;
	p->flags |= PIECE_COLD;
	s->cold.total++;
	s->cold.here += p->flags & PIECE_HERE ? 1 : 0;
	cold_offer(s, piece);
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
		next = s->first; /* the next flight may have been the twin
		                  * of the cancelled one */
	}
}

int swarm_want(struct swarm *s, enum source_priority priority,
	       const uint32_t *pieces, size_t n, int64_t now)
{
	int rc = 0;

	if (priority == SOURCE_DEMAND || n > s->cfg.n_pieces)
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		if (pieces[i] >= s->cfg.n_pieces)
			return -EINVAL;
	if (priority == SOURCE_HOT)
		rc = hot_resize(&s->hot, s->lim.window, (uint32_t)n);
	if (rc < 0)
		return rc;
	piece_forget_want(s, priority);
	if (priority == SOURCE_HOT)
		s->hot.since = s->hot.came = now;
	for (size_t i = 0; i < n; i++) {
		if (priority == SOURCE_HOT)
			add_hot_piece(s, pieces[i]);
		else
			add_cold_piece(s, pieces[i]);
	}
	cancel_unwanted(s);
	hot_refill(s);
	swarm_pump(s, now);
	return 0;
}

void swarm_forget(struct swarm *s, enum source_priority priority, int64_t now)
{
	if (priority == SOURCE_DEMAND)
		while (s->n_demands)
			demand_remove(s, s->demands[0].piece);
	else
		piece_forget_want(s, priority);
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

void swarm_satisfied(struct swarm *s, uint32_t piece, int64_t now)
{
	struct piece *p = &s->pieces[piece];

	demand_remove(s, piece);
	p->flags |= PIECE_HERE;
	p->flags &= ~PIECE_REFUSED & FLAGS;
	p->failed = 0;
	s->have++;
	if (p->flags & PIECE_HOT) {
		s->hot.here++;
		s->hot.came = now;
	}
	s->cold.here += p->flags & PIECE_COLD ? 1 : 0;
	news_log(s, piece);
}

void swarm_have(struct swarm *s, uint32_t piece, int64_t now)
{
	if (piece >= s->cfg.n_pieces || s->pieces[piece].flags & PIECE_HERE)
		return;
	if (s->cfg.is_unverified)
		s->pieces[piece].flags |= PIECE_UNVOUCHED;
	flight_cancel_all(s, piece);
	swarm_satisfied(s, piece, now);
	if (now - s->pumped >= PUMP_NS)
		swarm_pump(s, now);
}

void swarm_drop(struct swarm *s, uint32_t piece)
{
	struct piece *p;

	if (!swarm_has(s, piece))
		return;
	/* The user dropped the piece and does not want it back. */
	p = &s->pieces[piece];
	if (p->flags & PIECE_HOT) {
		s->hot.here--;
		s->hot.total--;
	}
	if (p->flags & PIECE_COLD) {
		s->cold.here--;
		s->cold.total--;
	}
	origin_owes_no_more(s, piece);
	p->flags &= ~(PIECE_HERE | PIECE_WANTED | PIECE_UNVOUCHED);
	s->have--;
	news_log(s, piece);
}
