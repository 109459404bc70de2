// SPDX-License-Identifier: Apache-2.0
/*
 * Reading from the origin: with a lease of the tracker or, without a tracker, in a turn that all
 * nodes compute alike. A reader refused by the tracker waits for a bounded time only, because a
 * tracker believes nodes, and nodes may lie. Only pieces that no neighbour has or promises are
 * read, adjacent ones together where possible, so that one request reads them.
 */
#include <string.h>

#include "p2p/core/swarm_parts_priv.h"

#define RUN_MAX 16u /* adjacent pieces in one call */
/* Bytes of adjacent pieces in one call, at most. */
#define RUN_BYTES (1u << 20)
#define WINDOW_STEP 64u
#define OFFERED_MIN 16u /* pieces */
/* A lease is given up here after this many times its duration. */
#define LEASE_TIMES 4
#define STUCK_NS (2 * NS_PER_S)
#define STUCK_MAX_NS (10 * NS_PER_S)
#define ALONE_NS (30 * NS_PER_S)
#define LEAVE_NS NS_PER_S
/* A node reads no further unverified pieces while copies of so many pieces are owed to each
 * neighbour, or of what it sends in this time, whichever is more. */
#define BACKLOG_PIECES 3u
#define BACKLOG_NS NS_PER_S

struct origin_batch {
	uint32_t pieces[SWARM_LEASE_MAX];
	size_t n;
	uint64_t bytes, max;
	bool is_stuck; /* all pieces of the batch are stuck */
};

/* May this node read the piece? `d` is the demand to read it for; NULL: it is read for bulk. */
static bool piece_may_be_read(struct swarm *s, uint32_t piece,
			      const struct demand *d, int64_t now)
{
	const struct piece *p = &s->pieces[piece];
	uint32_t tick = tick_of(s, now);

	if (p->flags & (PIECE_HERE | PIECE_LEASING) || p->after > tick ||
	    promise_ends(s, piece, d) > tick)
		return false;
	return s->has_tracker || turn_is_ours(s, piece, d, now);
}

static bool can_read_from_origin(struct swarm *s, uint32_t piece,
				 const struct demand *d, int64_t now)
{
	const struct piece *p = &s->pieces[piece];

	return piece_is_unheld(s, p) && !p->flight &&
	       piece_may_be_read(s, piece, d, now);
}

/* How long a read of the origin may bring nothing before it counts as stuck. */
static int64_t get_lease_patience_ns(const struct swarm *s)
{
	int64_t ns = 2 * s->origin_answer_ns;

	if (ns < STUCK_NS)
		return STUCK_NS;
	return ns < STUCK_MAX_NS ? ns : STUCK_MAX_NS;
}

/* Other nodes have the piece, but it cannot be had from them: a holder is silent, or the
 * tracker says that nodes have it and nothing was heard from any of them. */
static bool is_stuck(const struct swarm *s, uint32_t piece, int64_t now)
{
	const struct piece *p = &s->pieces[piece];

	if (p->holders & s->silent)
		return true;
	return p->flags & PIECE_REFUSED &&
	       turn_idle(s, piece, now) >= get_lease_patience_ns(s);
}

/* Pieces that are stuck are asked for in a call without other pieces. */
static bool fits_batch(struct swarm *s, const struct origin_batch *b,
		       uint32_t piece, int64_t now)
{
	return can_read_from_origin(s, piece, NULL, now) &&
	       (!b->n || b->is_stuck == is_stuck(s, piece, now));
}

static bool batch_add(struct swarm *s, struct origin_batch *b, uint32_t piece)
{
	uint32_t size = s->cfg.sizes[piece];

	if (b->n == SWARM_LEASE_MAX || (b->n && b->bytes + size > b->max))
		return false;
	s->pieces[piece].flags |= PIECE_LEASING; /* in this batch, once */
	b->pieces[b->n++] = piece;
	b->bytes += size;
	return true;
}

/* Add `piece` and the adjacent ones after it that have one of `flags`. */
static bool batch_add_adjacent_pieces(struct swarm *s, struct origin_batch *b,
				      uint32_t piece, unsigned int flags,
				      int64_t now)
{
	uint64_t bytes = b->bytes;

	if (!b->n)
		b->is_stuck = is_stuck(s, piece, now);
	for (uint32_t n = 0; n < RUN_MAX && b->bytes - bytes < RUN_BYTES &&
			     piece < s->cfg.n_pieces;
	     n++, piece++) {
		if (n && (!(s->pieces[piece].flags & flags) ||
			  !fits_batch(s, b, piece, now)))
			break;
		if (!batch_add(s, b, piece))
			return false;
	}
	return true;
}

static void gather_hot(struct swarm *s, struct origin_batch *b, int64_t now)
{
	struct hot_pieces *h = &s->hot;
	uint32_t n, at;

	hot_clean(s);
	n = h->n_window;
	at = n ? (uint32_t)(swarm_random(s) % n) : 0;
	for (uint32_t i = 0; i < n; i++, at = at + 1 < n ? at + 1 : 0)
		if (fits_batch(s, b, h->window[at], now) &&
		    !batch_add_adjacent_pieces(s, b, h->window[at],
					       PIECE_IN_WINDOW, now))
			return;
	/* All pieces of the window are being read by some node: widen it, so that the origin
	 * does not idle. */
	if (!b->n && h->next < h->n && h->width + WINDOW_STEP <= h->room)
		h->width += WINDOW_STEP;
}

/* Find offered pieces whose holders have left. When no peer can be asked, nothing else goes
 * through this list. */
static void offered_pieces_check(struct swarm *s, int64_t now)
{
	struct cold *c = &s->cold;
	uint32_t n, at;

	if (now - s->looked < CHECK_NS)
		return;
	s->looked = now;
	n = c->n_offered < COLD_SAMPLE ? c->n_offered : COLD_SAMPLE;
	at = n ? (uint32_t)(swarm_random(s) % c->n_offered) : 0;
	for (; n > 0 && c->n_offered; n--, at++) {
		at = at < c->n_offered ? at : 0;
		cold_offer(s, c->offered[at]);
		(void)cold_offered_leaves(s, at);
	}
}

static void gather_cold(struct swarm *s, struct origin_batch *b, int64_t now)
{
	struct cold *c = &s->cold;
	uint32_t n, at;

	if (!c->n_unheld)
		offered_pieces_check(s, now);
	n = c->n_unheld < COLD_SAMPLE ? c->n_unheld : COLD_SAMPLE;
	at = n ? (uint32_t)(swarm_random(s) % c->n_unheld) : 0;
	for (; n > 0; n--) {
		if (at >= c->n_unheld)
			at = 0;
		if (cold_unheld_leaves(s, at))
			continue;
		if (fits_batch(s, b, c->unheld[at], now) &&
		    !batch_add_adjacent_pieces(s, b, c->unheld[at], PIECE_COLD,
					       now))
			return;
		at++;
	}
}

static void gather_demand(struct swarm *s, struct origin_batch *b, int64_t now)
{
	for (size_t i = 0; i < s->n_demands; i++) {
		const struct demand *d = &s->demands[i];

		if (can_read_from_origin(s, d->piece, d, now) &&
		    !batch_add(s, b, d->piece))
			return;
	}
}

/* ------------------------------------------------------------------- reading --- */

static void pieces_sort(uint32_t *pieces, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		uint32_t piece = pieces[i];
		size_t j = i;

		for (; j > 0 && pieces[j - 1] > piece; j--)
			pieces[j] = pieces[j - 1];
		pieces[j] = piece;
	}
}

/* Read those of these pieces that are still wanted. */
static void read_origin(struct swarm *s, const uint32_t *pieces, size_t n,
			int64_t expires, int64_t now)
{
	enum source_priority priority = SOURCE_COLD;
	uint32_t reads[SWARM_LEASE_MAX];
	size_t n_reads = 0;

	for (size_t i = 0; i < n; i++) {
		const struct piece *p = &s->pieces[pieces[i]];
		bool is_demand = p->flags & PIECE_DEMAND;
		struct piece_flight *f =
			p->flight ? flight_at(s, p->flight) : NULL;

		if (!(p->flags & PIECE_WANTED) || p->flags & PIECE_HERE)
			continue;
		if (f && (f->twin || f->peer == ORIGIN || !is_demand))
			continue;
		if (!flight_fits(s, pieces[i], is_demand))
			continue;
		if (piece_priority(p) < priority)
			priority = piece_priority(p);
		f = flight_start(s, ORIGIN, pieces[i], piece_priority(p), now);
		f->expires = expires;
		f->is_turn = turn_is_first(s, pieces[i]);
		reads[n_reads++] = pieces[i];
		news_promise(s, pieces[i]);
	}
	if (!n_reads)
		return;
	pieces_sort(reads, n_reads);
	s->cfg.host->origin(s->cfg.arg, reads, n_reads, priority);
}

/* No lease to wait for: this read is not granted by the tracker. */
static void read_batch(struct swarm *s, const struct origin_batch *b,
		       int64_t now)
{
	for (size_t i = 0; i < b->n; i++)
		s->pieces[b->pieces[i]].flags &= ~PIECE_LEASING & FLAGS;
	read_origin(s, b->pieces, b->n, INT64_MAX, now);
}

/* The tracker says that other nodes read the piece, but no neighbour has it though the demand
 * has waited long: a node may hold it back for ever. Nodes then read it one after the other, so
 * that the first copy may reach the others. */
static bool demand_is_blocked(struct swarm *s, const struct demand *d,
			      int64_t now)
{
	const struct piece *p = &s->pieces[d->piece];

	if (!(p->flags & PIECE_REFUSED) ||
	    p->flags & (PIECE_HERE | PIECE_LEASING) || p->flight ||
	    !piece_is_unheld(s, p))
		return false;
	return now - d->since >= demand_patience(s) + turn_wait(s, d->piece);
}

/* Read such pieces without a lease. */
static void blocked_demands_read(struct swarm *s, int64_t now)
{
	struct origin_batch b = { .max = s->lim.flying_max };

	for (size_t i = 0; i < s->n_demands; i++)
		if (demand_is_blocked(s, &s->demands[i], now) &&
		    !batch_add(s, &b, s->demands[i].piece))
			break;
	read_batch(s, &b, now);
}

static void ask_tracker(struct swarm *s, const struct origin_batch *b,
			enum source_priority priority, int64_t now)
{
	struct lease_call *c = &s->calls[s->n_calls++];

	memcpy(c->pieces, b->pieces, b->n * sizeof(*b->pieces));
	c->n = b->n;
	c->asked = now;
	s->leasing += b->bytes;
	s->stats.leases_asked += b->n;
	s->cfg.host->lease(s->cfg.arg, b->pieces, b->n, priority);
}

static void ask_or_read(struct swarm *s, const struct origin_batch *b,
			enum source_priority priority, int64_t now)
{
	if (!b->n)
		return;
	if (s->has_tracker) {
		/* To a reader's call the tracker grants even what others have. */
		ask_tracker(s, b, b->is_stuck ? SOURCE_DEMAND : priority, now);
		return;
	}
	read_batch(s, b, now);
}

/* Must an unverified piece be sent to the neighbour? */
static bool is_receiver(const struct swarm *s, const struct peer *p)
{
	return p->is_joined && p->have < s->cfg.n_pieces;
}

/* Count the neighbours that an unverified piece has to be sent to. */
static unsigned int count_receiving_peers(const struct swarm *s)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < SWARM_PEERS_MAX; i++)
		n += is_receiver(s, &s->peers[i]);
	return n;
}

/* Bytes of copies that are owed to all receivers; to each, no more than `each` counts. */
static uint64_t sum_bytes_owed_to_receivers(const struct swarm *s,
					    uint64_t each)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < SWARM_PEERS_MAX; i++) {
		uint64_t sent = s->peers[i].unvouched_sent, owed;

		if (!is_receiver(s, &s->peers[i]))
			continue;
		owed = s->unvouched_read > sent ? s->unvouched_read - sent : 0;
		sum += owed < each ? owed : each;
	}
	return sum;
}

/* An unverified piece is sent to all nodes by the one that reads it, so shares of the origin
 * have to be as even as uplinks are: a node that has yet to send what it read leaves the next
 * pieces to the others, as long as these bring some. */
static uint64_t get_backlog_room_bytes(const struct swarm *s, int64_t now)
{
	bool is_hot = s->hot.here < s->hot.total;
	int64_t brought = s->progress[is_hot ? 0 : 1];
	uint64_t owed, most,
		n = s->cfg.is_unverified ? count_receiving_peers(s) : 0;

	if (is_hot && brought < s->hot.since)
		brought = s->hot.since;
	if (!n || now - brought >= LEAVE_NS)
		return UINT64_MAX;
	most = s->sent_rate / 1000 * (uint64_t)(BACKLOG_NS / NS_PER_MS);
	if (most < BACKLOG_PIECES * s->size * n)
		most = BACKLOG_PIECES * s->size * n;
	/* A neighbour that takes nothing keeps this node, which has others, from no read. */
	owed = sum_bytes_owed_to_receivers(s, n > 1 ? most / 2 : most);
	return most > owed ? (most - owed) / n : 0;
}

void origin_owes(struct swarm *s, uint32_t piece)
{
	s->pieces[piece].flags |= PIECE_OWED;
	s->unvouched_read += s->cfg.sizes[piece];
}

void origin_owes_no_more(struct swarm *s, uint32_t piece)
{
	uint32_t bytes = s->cfg.sizes[piece];

	if (!(s->pieces[piece].flags & PIECE_OWED))
		return;
	s->pieces[piece].flags &= (uint16_t)~PIECE_OWED & FLAGS;
	s->unvouched_read -= bytes;
	for (unsigned int i = 0; i < SWARM_PEERS_MAX; i++) {
		uint64_t *sent = &s->peers[i].unvouched_sent;

		*sent -= bytes < *sent ? bytes : *sent;
	}
}

void swarm_sent(struct swarm *s, unsigned int peer, uint32_t piece)
{
	if (!s->cfg.is_unverified || piece >= s->cfg.n_pieces)
		return;
	s->sent_bytes += s->cfg.sizes[piece];
	if (peer < SWARM_PEERS_MAX && s->peers[peer].is_joined)
		s->peers[peer].unvouched_sent += s->cfg.sizes[piece];
}

/* The tracker limits the load of the origin and says whose turn it is; without one, each node
 * limits its own reads. */
static uint64_t origin_budget(const struct swarm *s, int64_t now)
{
	uint64_t credit = s->origin_rate / 1000 *
			  (uint64_t)(s->lim.origin_ns / NS_PER_MS);
	uint64_t used = s->origin_flying + s->leasing, most;

	if (credit < s->lim.origin_min)
		credit = s->lim.origin_min;
	if (credit > s->lim.origin_max || s->has_tracker)
		credit = s->lim.origin_max;
	most = get_backlog_room_bytes(s, now);
	if (credit > most)
		credit = most;
	return credit > used ? credit - used : 0;
}

/* Do others offer enough pieces to keep this node's link busy for a while? Then it leaves the
 * origin to nodes that have less. Offers of a silent or useless peer do not count. */
static bool has_enough_offered(struct swarm *s, int64_t now)
{
	uint64_t enough = OFFERED_MIN + s->came_rate / (s->size ? s->size : 1);

	if (!s->has_tracker || s->silent || s->useless ||
	    s->cold.n_offered < enough)
		return false;
	offered_pieces_check(s, now);
	return s->cold.n_offered >= enough;
}

/* While hot pieces arrive, links are kept for them, for ALONE_NS at most. A slow origin then
 * idles for this time, which is short. */
static bool hot_is_arriving(const struct swarm *s, int64_t now)
{
	return s->hot.here < s->hot.total &&
	       now - s->hot.came < get_lease_patience_ns(s) &&
	       now - s->hot.since < ALONE_NS;
}

void origin_pump(struct swarm *s, int64_t now)
{
	struct origin_batch b;

	if (s->has_tracker)
		blocked_demands_read(s, now);
	if (s->n_demands && s->n_calls < LEASE_CALLS_MAX) {
		b = (struct origin_batch){ .max = s->lim.flying_max };
		gather_demand(s, &b, now);
		ask_or_read(s, &b, SOURCE_DEMAND, now);
	}
	/* A call is kept free for demand. */
	if (s->is_paused || s->n_calls + 1 >= LEASE_CALLS_MAX ||
	    now < s->lease_next || !origin_budget(s, now) ||
	    !some_flight_fits(s))
		return;
	b = (struct origin_batch){ .max = origin_budget(s, now) };
	gather_hot(s, &b, now);
	if (b.n) {
		ask_or_read(s, &b, SOURCE_HOT, now);
		return;
	}
	if (hot_is_arriving(s, now) || has_enough_offered(s, now))
		return;
	gather_cold(s, &b, now);
	ask_or_read(s, &b, SOURCE_COLD, now);
}

void origin_hedge(struct swarm *s, const struct demand *d, int64_t now)
{
	struct origin_batch b = { .max = s->lim.flying_max };

	if (s->n_calls == LEASE_CALLS_MAX ||
	    !piece_may_be_read(s, d->piece, d, now))
		return;
	if (batch_add(s, &b, d->piece))
		ask_or_read(s, &b, SOURCE_DEMAND, now);
}

void origin_moved(struct swarm *s, const struct piece_flight *f, int64_t now)
{
	int64_t from = f->asked > s->origin_came ? f->asked : s->origin_came;
	double ns = now > from ? (double)(now - from) : 1;
	uint64_t sample = (uint64_t)((double)f->size * NS_PER_S / ns);
	int64_t answer = now - f->asked;

	s->origin_rate =
		s->origin_rate ? (3 * s->origin_rate + sample) / 4 : sample;
	s->origin_answer_ns = s->origin_answer_ns
				      ? (3 * s->origin_answer_ns + answer) / 4
				      : answer;
	s->origin_came = now;
	s->lease_next = now; /* there is room for another */
}

/* ---------------------------------------------------------------- the tracker --- */

static void call_end(struct swarm *s, unsigned int i)
{
	struct lease_call *c = &s->calls[i];

	for (size_t j = 0; j < c->n; j++) {
		s->pieces[c->pieces[j]].flags &= ~PIECE_LEASING;
		s->leasing -= s->cfg.sizes[c->pieces[j]];
	}
	*c = s->calls[--s->n_calls];
}

void swarm_leases(struct swarm *s, const struct swarm_grant *g, int64_t now)
{
	int64_t retry = g->retry_ns > 0 ? g->retry_ns : 0;
	size_t n =
		g->n_granted < SWARM_LEASE_MAX ? g->n_granted : SWARM_LEASE_MAX;

	for (unsigned int i = 0; i < s->n_calls; i++) {
		const struct lease_call *c = &s->calls[i];

		if (c->n == g->n_asked &&
		    memcmp(c->pieces, g->asked, c->n * sizeof(*c->pieces)) ==
			    0) {
			call_end(s, i);
			break;
		}
	}
	/* If other nodes read a piece, wait with that piece; if the origin is full, wait with
	 * all pieces. */
	for (size_t i = 0; i < g->n_asked && !g->is_full; i++)
		if (g->asked[i] < s->cfg.n_pieces) {
			s->pieces[g->asked[i]].after = tick_of(s, now + retry);
			s->pieces[g->asked[i]].flags |= PIECE_REFUSED;
		}
	if (g->is_full)
		s->lease_next = now + retry;
	for (size_t i = 0; i < n; i++)
		if (g->granted[i] >= s->cfg.n_pieces)
			n = i;
	s->stats.leases_granted += n;
	read_origin(s, g->granted, n, now + LEASE_TIMES * g->ttl_ns, now);
	swarm_pump(s, now);
}

static void calls_forget(struct swarm *s)
{
	while (s->n_calls)
		call_end(s, 0);
}

static void handle_lost_tracker(struct swarm *s, int64_t now)
{
	s->has_tracker = false;
	turns_begin(s, now);
	calls_forget(s);
}

void swarm_tracker(struct swarm *s, bool is_there, int64_t now)
{
	if (s->has_tracker == is_there)
		return;
	if (is_there)
		s->has_tracker = true;
	else
		handle_lost_tracker(s, now);
	s->lease_next = now;
	swarm_pump(s, now);
}

void origin_check(struct swarm *s, int64_t now)
{
	/* While hot pieces come, the node whose turn it is reads no cold ones either, so its
	 * turn is not late. */
	if (hot_is_arriving(s, now))
		turns_begin_cold(s, now);
	turns_check(s, now);
	for (unsigned int i = 0; i < s->n_calls; i++) {
		if (now - s->calls[i].asked < s->lim.lease_wait_ns)
			continue;
		handle_lost_tracker(s, now);
		return;
	}
}
