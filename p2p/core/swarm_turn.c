// SPDX-License-Identifier: Apache-2.0
/*
 * Turns to read a piece from the origin when no tracker gives leases: rendezvous hashing (Thaler
 * and Ravishankar, 1998) of each piece over the names of the nodes that take part.
 *
 * The first node in turn reads the piece at once. The others assume that it does, though it may
 * not be their neighbour: as long as they hear of any piece that no neighbour had, turns are being
 * taken. When nothing new was heard for a while, the next nodes in turn read, one after the other;
 * so a node that is alone, or whose members have left long ago, still gets everything.
 */
#include "p2p/core/swarm_parts_priv.h"

#define TURNS_MAX 20u /* later nodes wait no longer than this many steps */
#define TURN_MAX_NS (5 * NS_PER_S)
/* Promises without arriving pieces are believed for this many times promise_max_ns. */
#define PROMISES_TIMES 2

/* FNV-1a, G. Fowler, L. C. Noll and K.-P. Vo. */
uint64_t swarm_name(const char *node)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (; *node; node++)
		h = (h ^ (uint8_t)*node) * UINT64_C(0x100000001b3);
	return h;
}

/* Finalizer of splitmix64, S. Vigna. */
static uint64_t turn_score(uint64_t name, uint32_t piece)
{
	uint64_t x = name + (piece + 1) * UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/* How many nodes have their turn before this one. */
static uint16_t own_rank_for_piece(struct swarm *s, uint32_t piece)
{
	struct piece *p = &s->pieces[piece];
	uint64_t ours = turn_score(s->cfg.self, piece);
	uint16_t rank = 0;

	if (p->flags & PIECE_RANKED)
		return p->rank;
	for (size_t i = 0; i < s->n_members; i++)
		rank += turn_score(s->members[i], piece) > ours;
	p->rank = rank;
	p->flags |= PIECE_RANKED;
	return rank;
}

void swarm_members(struct swarm *s, const uint64_t *names, size_t n)
{
	if (n > SWARM_MEMBERS_MAX)
		n = SWARM_MEMBERS_MAX;
	s->n_members = 0;
	for (size_t i = 0; i < n; i++)
		if (names[i] != s->cfg.self)
			s->members[s->n_members++] = names[i];
	for (uint32_t i = 0; i < s->cfg.n_pieces; i++)
		s->pieces[i].flags &= ~PIECE_RANKED & FLAGS;
}

bool turn_is_first(struct swarm *s, uint32_t piece)
{
	return !s->has_tracker && own_rank_for_piece(s, piece) == 0;
}

bool swarm_takes_turns(const struct swarm *s)
{
	return !s->has_tracker;
}

static size_t index_of_piece_kind(const struct piece *p)
{
	return p->flags & PIECE_HOT ? 0 : 1;
}

void turn_progress(struct swarm *s, uint32_t piece, int64_t now)
{
	const struct piece *p = &s->pieces[piece];

	if (p->flags & PIECE_WANTED && !(p->flags & PIECE_HERE))
		s->progress[index_of_piece_kind(p)] =
			s->brought[index_of_piece_kind(p)] = now;
}

void turn_promised(struct swarm *s, uint32_t piece, int64_t now)
{
	const struct piece *p = &s->pieces[piece];
	size_t kind = index_of_piece_kind(p);

	if (p->flags & PIECE_WANTED && !(p->flags & PIECE_HERE) &&
	    now - s->brought[kind] < PROMISES_TIMES * s->lim.promise_max_ns)
		s->progress[kind] = now;
}

int64_t turn_idle(const struct swarm *s, uint32_t piece, int64_t now)
{
	return now - s->progress[index_of_piece_kind(&s->pieces[piece])];
}

void turns_begin(struct swarm *s, int64_t now)
{
	s->progress[0] = s->progress[1] = now;
	s->brought[0] = s->brought[1] = now;
}

void turns_begin_cold(struct swarm *s, int64_t now)
{
	s->progress[1] = s->brought[1] = now;
}

/* Without a tracker every node reads its own share of the origin: while this node's own reads
 * are not finished, reads of the others are not late. */
void turns_check(struct swarm *s, int64_t now)
{
	if (s->has_tracker || !s->origin_flying)
		return;
	for (uint16_t i = s->first; i; i = flight_at(s, i)->next) {
		if (!flight_at(s, i)->is_turn)
			continue;
		turns_begin(s, now);
		return;
	}
}

/* Expect the origin to take as long for other nodes as for this one. */
static int64_t get_turn_patience_ns(const struct swarm *s)
{
	int64_t ns = s->origin_answer_ns;

	if (ns < s->lim.turn_ns)
		return s->lim.turn_ns;
	return ns < TURN_MAX_NS ? ns : TURN_MAX_NS;
}

int64_t turn_wait(struct swarm *s, uint32_t piece)
{
	uint32_t rank = own_rank_for_piece(s, piece);

	return (rank < TURNS_MAX ? rank : TURNS_MAX) * s->lim.stagger_ns;
}

bool turn_is_ours(struct swarm *s, uint32_t piece, const struct demand *d,
		  int64_t now)
{
	const struct piece *p = &s->pieces[piece];
	uint32_t promised = promise_ends(s, piece, d);
	int64_t wait = turn_wait(s, piece);

	if (!own_rank_for_piece(s, piece))
		return true;
	/* Until a promise has failed and this node's delay has passed, it is not its turn. */
	if (promised && promised > tick_of(s, now - wait))
		return false;
	if (p->after && p->after > tick_of(s, now - wait))
		return false;
	if (!d && p->flags & PIECE_DEMAND)
		d = demand_of(s, piece);
	if (d)
		return now - wait >= d->since;
	return turn_idle(s, piece, now) >= wait + get_turn_patience_ns(s);
}
