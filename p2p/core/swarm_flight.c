// SPDX-License-Identifier: Apache-2.0
/*
 * Requests in flight: limits on their number and bytes, and how answers are counted. Late requests
 * are in swarm_late.c.
 */
#include <errno.h>
#include <string.h>

#include "p2p/core/swarm_parts_priv.h"

/* A peer this many times slower than the others is useless. */
#define USELESS_SLOWER 16
/* After this many refusals in a row, the peer is not asked for SENDING_NS. */
#define SENDING_REFUSALS 4u
#define SENDING_NS (30 * NS_PER_MS)
/* Upper bounds for the retry time that a refusal names: while the peer has sent little, and for
 * any peer. */
#define RETRY_MOST_NS (100 * NS_PER_MS)
#define REFUSAL_MAX_NS (500 * NS_PER_MS)
#define RETRY_MAX_NS (2 * NS_PER_S)
#define GAP_WEIGHT 16
/* The old average counts 7 times, the new sample once. */
#define RATE_WEIGHT 8

struct piece_flight *flight_at(struct swarm *s, uint16_t index)
{
	return &s->flights[index - 1];
}

uint16_t flight_index(const struct swarm *s, const struct piece_flight *f)
{
	return (uint16_t)(f - s->flights + 1);
}

enum source_priority piece_priority(const struct piece *p)
{
	if (p->flags & PIECE_DEMAND)
		return SOURCE_DEMAND;
	return p->flags & PIECE_HOT ? SOURCE_HOT : SOURCE_COLD;
}

uint32_t unpacked_of(const struct swarm *s, uint32_t piece)
{
	return s->cfg.unpacked ? s->cfg.unpacked[piece] : 0;
}

/* An eighth of the limit is reserved for demand. */
static bool bytes_fit(uint64_t used, uint64_t size, uint64_t max,
		      bool is_demand)
{
	max -= is_demand ? 0 : max / 8;
	return used <= max && size <= max - used;
}

static bool flight_fits_limits(const struct swarm *s, uint64_t size,
			       uint64_t unpacked, bool is_demand)
{
	if (!s->unused)
		return false;
	return !s->n_flights ||
	       (bytes_fit(s->flying, size, s->lim.flying_max, is_demand) &&
		bytes_fit(s->unpacked, unpacked, s->lim.unpacked_max,
			  is_demand));
}

bool flight_fits(const struct swarm *s, uint32_t piece, bool is_demand)
{
	return flight_fits_limits(s, s->cfg.sizes[piece], unpacked_of(s, piece),
				  is_demand);
}

bool some_flight_fits(const struct swarm *s)
{
	return flight_fits_limits(s, 0, 0, false);
}

bool flight_fits_there(const struct swarm *s, const struct piece_flight *f,
		       uint32_t piece)
{
	uint32_t size = s->cfg.sizes[piece], unpacked = unpacked_of(s, piece);

	if (size <= f->size && unpacked <= f->unpacked)
		return true;
	return flight_fits_limits(s, size > f->size ? size - f->size : 0,
				  unpacked > f->unpacked
					  ? unpacked - f->unpacked
					  : 0,
				  false);
}

static void flight_ask(struct swarm *s, struct piece_flight *f)
{
	uint32_t pieces[1 + SWARM_OTHERS_MAX] = { f->piece };

	others_choose(s, f);
	memcpy(pieces + 1, f->others, f->n_others * sizeof(*pieces));
	s->cfg.host->ask(s->cfg.arg, f->peer, pieces, 1 + f->n_others,
			 (enum source_priority)f->priority);
}

struct piece_flight *flight_start(struct swarm *s, uint8_t peer, uint32_t piece,
				  enum source_priority priority, int64_t now)
{
	struct piece *p = &s->pieces[piece];
	uint16_t index = s->unused;
	struct piece_flight *f = flight_at(s, index);

	s->unused = f->next;
	*f = (struct piece_flight){
		.piece = piece,
		.size = s->cfg.sizes[piece],
		.unpacked = unpacked_of(s, piece),
		.prev = s->last,
		.twin = p->flight,
		.peer = peer,
		.priority = (uint8_t)priority,
		.is_hedge = p->flight != 0,
		.asked = now,
		.expires = INT64_MAX,
	};
	if (s->last)
		flight_at(s, s->last)->next = index;
	else
		s->first = index;
	s->last = index;
	if (p->flight)
		flight_at(s, p->flight)->twin = index;
	else
		p->flight = index;
	s->n_flights++;
	s->flying += f->size;
	s->unpacked += f->unpacked;
	if (peer == ORIGIN) {
		s->origin_flying += f->size;
		return f;
	}
	f->expected_ns = peer_expected(s, &s->peers[peer], f->size);
	if (!s->peers[peer].n_flying++)
		s->peers[peer].moved = now;
	s->peers[peer].flying += f->size;
	f->ahead = s->peers[peer].flying;
	s->stats.asks++;
	flight_ask(s, f);
	return f;
}

void flight_end(struct swarm *s, struct piece_flight *f)
{
	struct piece *p = &s->pieces[f->piece];
	uint16_t index = flight_index(s, f);

	others_release(s, f);
	if (f->prev)
		flight_at(s, f->prev)->next = f->next;
	else
		s->first = f->next;
	if (f->next)
		flight_at(s, f->next)->prev = f->prev;
	else
		s->last = f->prev;
	if (p->flight == index)
		p->flight = f->twin;
	if (f->twin)
		flight_at(s, f->twin)->twin = 0;
	s->n_flights--;
	s->flying -= f->size;
	s->unpacked -= f->unpacked;
	if (f->peer == ORIGIN) {
		s->origin_flying -= f->size;
	} else {
		s->peers[f->peer].n_flying--;
		s->peers[f->peer].flying -= f->size;
	}
	f->next = s->unused;
	s->unused = index;
}

void flight_cancel(struct swarm *s, struct piece_flight *f)
{
	uint8_t peer = f->peer;
	uint32_t piece = f->piece;

	flight_end(s, f);
	/* An answer of the origin is kept in any case, because its lease has been spent. */
	if (peer != ORIGIN)
		s->cfg.host->cancel(s->cfg.arg, peer, piece);
}

void flight_cancel_all(struct swarm *s, uint32_t piece)
{
	while (s->pieces[piece].flight) {
		struct piece_flight *f = flight_at(s, s->pieces[piece].flight);
		uint32_t first = f->piece;

		flight_cancel(s, f);
		if (first != piece && !s->pieces[first].flight)
			swarm_want_again(s, first);
	}
}

void flights_of_peer_end(struct swarm *s, uint8_t peer)
{
	uint16_t next;

	for (uint16_t i = s->first; i; i = next) {
		struct piece_flight *f = flight_at(s, i);
		uint32_t piece = f->piece;

		next = f->next;
		if (f->peer != peer)
			continue;
		flight_end(s, f);
		if (!s->pieces[piece].flight)
			swarm_want_again(s, piece);
	}
}

struct piece_flight *flight_of(struct swarm *s, unsigned int peer,
			       uint32_t piece)
{
	uint8_t from = peer == SWARM_NONE ? ORIGIN : (uint8_t)peer;

	for (uint16_t i = s->pieces[piece].flight; i;
	     i = flight_at(s, i)->twin) {
		if (flight_at(s, i)->peer == from)
			return flight_at(s, i);
		if (i != s->pieces[piece].flight)
			break; /* the two requests of a pair point at each
			        * other */
	}
	return NULL;
}

/* ------------------------------------------------------------------- answers --- */

static bool piece_is_known(const struct swarm *s, unsigned int peer,
			   uint32_t piece)
{
	return piece < s->cfg.n_pieces &&
	       (peer == SWARM_NONE ||
		(peer < SWARM_PEERS_MAX && s->peers[peer].is_joined));
}

static void note_peer_was_heard(struct swarm *s, struct peer *p, int64_t now)
{
	p->moved = p->heard = s->heard = now;
	p->quiet = 0;
	s->silent &= ~(UINT64_C(1) << (p - s->peers));
}

/* Average the time per byte, not the rates: one answer that arrived in a burst, a hundred times
 * faster than the link, must not make all later answers look late. */
static void rate_smooth(uint64_t *rate, uint64_t sample)
{
	double before = (double)(*rate ? *rate : sample), now = (double)sample;

	*rate = sample ? (uint64_t)(RATE_WEIGHT /
				    ((RATE_WEIGHT - 1) / before + 1 / now))
		       : *rate;
	if (!*rate)
		*rate = 1;
}

/* When this piece was asked for, its answer was the last that the peer had to send; so it
 * measures the peer's rate. */
static void peer_learn(struct swarm *s, struct peer *p,
		       const struct piece_flight *f, int64_t now)
{
	uint64_t ns = now > f->asked ? (uint64_t)(now - f->asked) : 1;
	uint64_t sample = (uint64_t)((double)f->ahead * NS_PER_S / (double)ns);

	rate_smooth(&p->rate, sample);
	rate_smooth(&s->rate, sample);
	answers_add(&p->answers, now - f->asked);
	answers_add(&s->answers, now - f->asked);
	if (!s->answer_min || now - f->asked < s->answer_min)
		s->answer_min = now - f->asked;
	s->n_longer = 0;
	note_peer_was_heard(s, p, now);
	p->refusals = 0;
	if (p->rate >= s->rate / USELESS_SLOWER)
		s->useless &= ~(UINT64_C(1) << f->peer);
	p->bytes += f->size;
}

void swarm_moves(struct swarm *s, unsigned int peer, uint32_t piece,
		 uint32_t bytes, int64_t now)
{
	struct piece_flight *f;

	if (!bytes || peer == SWARM_NONE || !piece_is_known(s, peer, piece))
		return;
	note_peer_was_heard(s, &s->peers[peer], now);
	f = flight_of(s, peer, piece);
	if (f)
		f->came +=
			bytes < f->size - f->came ? bytes : f->size - f->came;
}

static void count_arrival(struct swarm *s, unsigned int peer, uint32_t size,
			  int64_t now)
{
	int64_t gap = now - s->got;

	/* Cut long gaps: they would not change the news interval, but would stay in the average
	 * for long. */
	if (gap > NEWS_MAX_NS)
		gap = NEWS_MAX_NS;
	if (s->got)
		s->gap_ns += (gap - s->gap_ns) / GAP_WEIGHT;
	s->got = now;
	s->came_bytes += size;
	if (peer == SWARM_NONE)
		s->stats.bytes_origin += size;
	else
		s->stats.bytes_peers[s->peers[peer].distance] += size;
}

static struct piece_flight *find_begun_flight(struct swarm *s,
					      unsigned int peer, uint32_t piece)
{
	struct piece_flight *f = flight_of(s, peer, piece);

	return f && !f->n_others ? f : NULL;
}

void swarm_got(struct swarm *s, unsigned int peer, uint32_t piece, int64_t now)
{
	struct piece_flight *f;

	if (!piece_is_known(s, peer, piece))
		return;
	/* A piece that arrives after its request was cancelled says nothing about the speed of
	 * current requests. */
	f = find_begun_flight(s, peer, piece);
	count_arrival(s, peer, s->cfg.sizes[piece], now);
	if (f && f->peer == ORIGIN)
		origin_moved(s, f, now);
	else if (f)
		peer_learn(s, &s->peers[peer], f, now);
	if (f) {
		s->stats.hedges_won += f->is_hedge;
		flight_end(s, f);
	}
	if (s->pieces[piece].flags & PIECE_HERE) {
		s->stats.bytes_twice += s->cfg.sizes[piece];
	} else {
		if (s->cfg.is_unverified && peer != SWARM_NONE)
			s->pieces[piece].flags |= PIECE_UNVOUCHED;
		else if (s->cfg.is_unverified)
			origin_owes(s, piece);
		flight_cancel_all(s, piece);
		swarm_satisfied(s, piece, now);
	}
	swarm_pump(s, now);
}

void flight_fails(struct swarm *s, struct piece_flight *f)
{
	uint32_t piece = f->piece;

	flight_end(s, f);
	if (!s->pieces[piece].flight)
		swarm_want_again(s, piece);
}

static void handle_failed_origin_read(struct swarm *s, uint32_t piece, int rc,
				      int64_t now)
{
	struct piece *p = &s->pieces[piece];
	unsigned int bound = p->flags & PIECE_DEMAND ? 3 : 8;

	if (p->failed < FAILED_MAX)
		p->failed++;
	if (p->failed >= bound && !p->holders && !p->flight &&
	    p->flags & PIECE_WANTED) {
		swarm_give_up(s, piece, rc);
		return;
	}
	/* A reader has a limited wait for the tracker, but not for the origin; so ask the
	 * tracker first. */
	p->flags &= ~PIECE_REFUSED & FLAGS;
	p->after = tick_of(s, now + (100 * NS_PER_MS
				     << (p->failed < 8 ? p->failed : 8)));
}

void swarm_lost(struct swarm *s, unsigned int peer, uint32_t piece, int rc,
		int64_t now)
{
	struct piece_flight *f;

	if (!piece_is_known(s, peer, piece))
		return;
	f = find_begun_flight(s, peer, piece);
	if (f)
		flight_fails(s, f);
	if (peer == SWARM_NONE) {
		if (f)
			handle_failed_origin_read(s, piece, rc, now);
	} else {
		s->pieces[piece].holders &= ~(UINT64_C(1) << peer);
	}
	s->stats.wrong += rc == -EBADMSG;
	if (rc == -EBADMSG && peer != SWARM_NONE)
		peer_strike(s, peer, "sent what is wrong");
	swarm_pump(s, now);
}

static void learn_refusal_time(struct swarm *s, int64_t took)
{
	if (took > REFUSAL_MAX_NS)
		took = REFUSAL_MAX_NS;
	s->refusal_ns += (took - s->refusal_ns) / RATE_WEIGHT;
}

/* Bound a peer's retry time by how long its answers usually take. */
static int64_t retry_believable(const struct swarm *s, const struct peer *p,
				int64_t retry_ns)
{
	uint64_t wanted = flying_wanted(s);
	uint64_t flying = s->flying - s->origin_flying;
	int64_t most = 2 * answers_quantile(&p->answers, 95);

	if (most < RETRY_MOST_NS)
		most = RETRY_MOST_NS;
	if (most > RETRY_MAX_NS)
		most = RETRY_MAX_NS;
	if (retry_ns > most)
		retry_ns = most;
	/* A node that has enough in flight waits longer, to leave room to nodes that have
	 * nothing. */
	if (retry_ns > SENDING_NS && flying < wanted)
		retry_ns =
			SENDING_NS + (int64_t)((double)(retry_ns - SENDING_NS) *
					       (double)flying / (double)wanted);
	return retry_ns > 0 ? retry_ns : NS_PER_MS;
}

/* The earliest retry time among the peers that refused the piece counts, so that a peer which
 * names a long time does not keep this node from asking the others. */
static void piece_rest_until(struct swarm *s, unsigned int peer, uint32_t piece,
			     int64_t until, int64_t now)
{
	struct piece *p = &s->pieces[piece];
	uint32_t tick = tick_of(s, until);

	if (p->rest <= tick_of(s, now))
		p->resting = 0;
	if (!p->resting || tick < p->rest)
		p->rest = tick;
	p->resting |= UINT64_C(1) << peer;
}

void swarm_refused(struct swarm *s, unsigned int peer, uint32_t piece,
		   enum swarm_refusal why, int64_t retry_ns, int64_t now)
{
	uint32_t pieces[1 + SWARM_OTHERS_MAX] = { piece };
	size_t n = 1;
	struct piece_flight *f;
	struct peer *p;

	if (peer == SWARM_NONE || !piece_is_known(s, peer, piece))
		return;
	p = &s->peers[peer];
	s->stats.refusals++;
	p->moved = p->heard = now;
	p->quiet = 0;
	s->silent &= ~(UINT64_C(1) << peer);
	f = flight_of(s, peer, piece);
	if (f && f->piece == piece) {
		memcpy(pieces + 1, f->others, f->n_others * sizeof(*pieces));
		n += f->n_others;
		learn_refusal_time(s, now - f->asked);
		flight_fails(s, f);
	}
	retry_ns = retry_believable(s, p, retry_ns);
	if (why == SWARM_BUSY || why == SWARM_SENDING) {
		peer_refused_again(s, peer, now);
		/* A busy peer is not asked at all for a while; so only the first piece needs a
		 * rest. */
		for (size_t i = 0; i < (why == SWARM_BUSY ? 1 : n); i++)
			piece_rest_until(s, peer, pieces[i], now + retry_ns,
					 now);
	} else {
		for (size_t i = 0; i < n; i++)
			s->pieces[pieces[i]].holders &= ~(UINT64_C(1) << peer);
	}
	/* A peer that has no piece free right now must not be asked for one piece after the
	 * other. */
	if (why == SWARM_SENDING && retry_ns > SENDING_NS)
		retry_ns = SENDING_NS;
	if ((why == SWARM_BUSY || p->refusals > SENDING_REFUSALS) &&
	    p->busy_until < now + retry_ns)
		p->busy_until = now + retry_ns;
	if (why == SWARM_DENIED && p->busy_until != INT64_MAX) {
		for (uint32_t i = 0; i < s->cfg.n_pieces; i++)
			s->pieces[i].holders &= ~(UINT64_C(1) << peer);
		p->have = 0;
		p->busy_until = INT64_MAX;
	}
	swarm_pump(s, now);
}
