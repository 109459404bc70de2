// SPDX-License-Identifier: Apache-2.0
/*
 * Alternative pieces of a request. Many nodes want the rarest pieces of the same holder, which
 * sends each to one of them at a time; a refusal costs a round trip, which is long on full links.
 * So a request names more pieces, the holder sends the first that is free, and no other request
 * names them until it begins to answer.
 */
#include "p2p/core/swarm_parts_priv.h"

#define LOOKED_AT 64u /* pieces, for one request */
#define FLIGHTS_SHARE 2u

/* How many further pieces one request may name, of those that are left to ask for. */
static unsigned int max_other_pieces(const struct swarm *s, bool is_hot)
{
	uint32_t left = is_hot ? s->hot.n_window : s->cold.n_offered;

	left /= FLIGHTS_SHARE * s->lim.flying_pieces;
	return left < SWARM_OTHERS_MAX ? left : SWARM_OTHERS_MAX;
}

static bool piece_may_join_flight(const struct swarm *s,
				  const struct piece_flight *f, uint32_t piece)
{
	const struct piece *p = &s->pieces[piece];

	if (!is_open(p, PIECE_WANTED) || piece_priority(p) != f->priority ||
	    p->flags & PIECE_LEASING || !(p->holders >> f->peer & 1))
		return false;
	if (!flight_fits_there(s, f, piece))
		return false;
	return p->rest <= s->tick || !(p->resting >> f->peer & 1);
}

static unsigned int piece_rarity(const struct swarm *s, uint32_t piece)
{
	return (unsigned int)__builtin_popcountll(s->pieces[piece].holders);
}

/* Until the peer chooses a piece, count the request with the largest one that it names. */
static void flight_resize(struct swarm *s, struct piece_flight *f,
			  uint32_t size, uint32_t unpacked)
{
	s->unpacked = s->unpacked - f->unpacked + unpacked;
	f->unpacked = unpacked;
	s->flying = s->flying - f->size + size;
	f->ahead = f->ahead - f->size + size;
	s->peers[f->peer].flying = s->peers[f->peer].flying - f->size + size;
	f->size = size;
}

static uint32_t larger_piece_size(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* Insert a piece into the list of the `max` rarest, rarest first. */
static void flight_keep_rare_piece(const struct swarm *s,
				   struct piece_flight *f, uint32_t piece,
				   unsigned int max)
{
	unsigned int n = piece_rarity(s, piece), i = f->n_others;

	if (i == max && piece_rarity(s, f->others[i - 1]) <= n)
		return;
	if (i == max)
		i--;
	else
		f->n_others++;
	for (; i > 0 && piece_rarity(s, f->others[i - 1]) > n; i--)
		f->others[i] = f->others[i - 1];
	f->others[i] = piece;
}

void others_choose(struct swarm *s, struct piece_flight *f)
{
	bool is_hot = f->priority == SOURCE_HOT;
	const uint32_t *list = is_hot ? s->hot.window : s->cold.offered;
	uint32_t n = is_hot ? s->hot.n_window : s->cold.n_offered, at;
	unsigned int max = max_other_pieces(s, is_hot);

	if (f->priority == SOURCE_DEMAND || f->is_hedge || !max ||
	    s->peers[f->peer].takes_one ||
	    s->pieces[f->piece].flags & PIECE_DEMAND)
		return;
	at = (uint32_t)(swarm_random(s) % n);
	for (uint32_t k = n < LOOKED_AT ? n : LOOKED_AT; k > 0; k--) {
		if (piece_may_join_flight(s, f, list[at]))
			flight_keep_rare_piece(s, f, list[at], max);
		at = at + 1 < n ? at + 1 : 0;
	}
	for (unsigned int i = 0; i < f->n_others; i++) {
		uint32_t piece = f->others[i];

		s->pieces[piece].flight = flight_index(s, f);
		flight_resize(s, f,
			      larger_piece_size(f->size, s->cfg.sizes[piece]),
			      larger_piece_size(f->unpacked,
						unpacked_of(s, piece)));
	}
	s->n_unsettled += f->n_others ? 1 : 0;
}

void others_release(struct swarm *s, struct piece_flight *f)
{
	s->n_unsettled -= f->n_others ? 1 : 0;
	for (unsigned int i = 0; i < f->n_others; i++) {
		s->pieces[f->others[i]].flight = 0;
		swarm_want_again(s, f->others[i]);
	}
	f->n_others = 0;
}

/* The flight carries `piece` from now on; no other flight names it. */
static void flight_move_to(struct swarm *s, struct piece_flight *f,
			   uint32_t piece)
{
	s->pieces[f->piece].flight = 0;
	f->piece = piece;
	s->pieces[piece].flight = flight_index(s, f);
}

void swarm_begins(struct swarm *s, unsigned int peer, uint32_t piece)
{
	struct piece_flight *f;
	uint32_t first;

	if (peer >= SWARM_PEERS_MAX || piece >= s->cfg.n_pieces)
		return;
	f = flight_of(s, peer, piece);
	if (!f || !f->n_others)
		return;
	first = f->piece;
	others_release(s, f);
	flight_resize(s, f, s->cfg.sizes[piece], unpacked_of(s, piece));
	if (piece == first)
		return;
	flight_move_to(s, f, piece);
	swarm_want_again(s, first);
}
