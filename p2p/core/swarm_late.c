// SPDX-License-Identifier: Apache-2.0
/*
 * Late requests: which requests are late, which are sent to a second peer, which peers are silent,
 * and which peers' pieces are read from the origin instead.
 */
#include "p2p/core/swarm_parts_priv.h"

#define KNOWN 8u /* enough answers to take a quantile of them */
#define LOSSES 5
/* A request is late after this many times its expected time. */
#define LATE 3
/* Bytes that demand may ask for twice before anything came. */
#define HEDGES_FREE (4u << 20)
#define SLOW 4 /* patience factor for a request whose bytes do arrive */
/* A peer that sends nothing for this long gets a strike. */
#define SILENT_NS (2 * NS_PER_S)
/* If flights were last checked longer ago than this, this machine stood still, and the peers
 * are not to blame. */
#define STILL_NS (500 * NS_PER_MS)
/* After a shorter pause than this a peer's pieces are not yet read from the origin. */
#define QUIET_NS NS_PER_S
#define QUIET_RETRY_NS (100 * NS_PER_MS)
#define USELESS_NS (3 * NS_PER_S)
/* An unverified piece has one holder at first, which must send it to all other nodes; so
 * refusals by it are normal for longer. */
#define USELESS_UNVERIFIED_NS (4 * USELESS_NS)
#define USELESS_REFUSALS 16u
#define COMES_SLOWER 8
#define LONGER_MAX 3u /* times that the patience may be doubled */
/* Upper bound for the wait, however slow a peer was before: a malicious peer may be slow on
 * purpose. */
#define PATIENCE_MAX_NS (30 * NS_PER_S)
#define MEASURE_NS (100 * NS_PER_MS)
/* The old average counts 7 times, the new sample once. */
#define MEASURE_WEIGHT 8u

static void peer_pieces_release(struct swarm *s, uint64_t *mask,
				unsigned int peer)
{
	if (*mask >> peer & 1)
		return;
	*mask |= UINT64_C(1) << peer;
	for (uint32_t i = 0; i < s->cfg.n_pieces; i++)
		cold_offer(s, i);
}

/* A peer that only refuses, or is far slower than the others, is useless: pieces that only it
 * has are read elsewhere. It is tried again, and one good answer restores it. */
static void rest_useless_peer(struct swarm *s, unsigned int peer, int64_t now)
{
	s->peers[peer].busy_until = now + USELESS_NS;
	peer_pieces_release(s, &s->useless, peer);
}

void peer_refused_again(struct swarm *s, unsigned int peer, int64_t now)
{
	struct peer *p = &s->peers[peer];
	int64_t patience =
		s->cfg.is_unverified ? USELESS_UNVERIFIED_NS : USELESS_NS;

	if (!p->refusals++)
		p->refused = now;
	if (p->refusals >= USELESS_REFUSALS && now - p->refused >= patience)
		rest_useless_peer(s, peer, now);
}

static uint64_t find_other_holders(const struct swarm *s,
				   const struct piece_flight *f,
				   bool need_credit, int64_t now)
{
	uint64_t mask = s->pieces[f->piece].holders, ret = 0;

	if (f->peer != ORIGIN)
		mask &= ~(UINT64_C(1) << f->peer);
	mask &= ~s->silent;
	while (mask) {
		unsigned int i = (unsigned int)__builtin_ctzll(mask);
		const struct peer *p = &s->peers[i];

		mask &= mask - 1;
		if (p->busy_until <= now &&
		    (!need_credit || p->flying < peer_credit(s, p)))
			ret |= UINT64_C(1) << i;
	}
	return ret;
}

/* For demand, and for the last pieces of all, ask a second peer when the first has taken longer
 * than its 95th percentile. */
static void hedge_check(struct swarm *s, struct piece_flight *f, int64_t now)
{
	const struct demand *d = demand_of(s, f->piece);
	bool is_last = is_all_asked(s);
	int64_t wait = s->lim.hedge_min_ns, since = f->asked, usual;
	uint64_t mask;

	if (f->twin || f->n_others || (!d && !is_last))
		return;
	if (d && d->since > since)
		since = d->since;
	if (f->peer != ORIGIN) {
		usual = answers_quantile(&s->peers[f->peer].answers, 95);
		wait = usual > wait ? usual : wait;
	} else if (2 * s->origin_answer_ns > wait) {
		wait = 2 * s->origin_answer_ns;
	}
	if (now - since < wait)
		return;
	/* Only few of the last pieces are asked for twice: all nodes fetch their last pieces at
	 * the same time, so their links have no room. */
	if (s->hedged_bytes + (d ? f->size : 0) >
	    (d ? HEDGES_FREE : 0) +
		    s->came_bytes / 1000 * s->lim.hedge_permille)
		return;
	mask = find_other_holders(s, f, !d, now);
	if (!mask && d && f->peer != ORIGIN)
		origin_hedge(s, d, now);
	if (!mask || !flight_fits(s, f->piece, d != NULL))
		return;
	s->hedged_bytes += f->size;
	s->stats.hedges++;
	(void)flight_start(s, (uint8_t)choose_peer(s, mask, f->size), f->piece,
			   d ? SOURCE_DEMAND
			     : (enum source_priority)f->priority,
			   now);
}

/* If nothing came from any peer since this request, this node's own link may be slow, with all
 * answers sharing it. Then wait twice as long: taking requests back would waste what was
 * already sent. */
static void patience_double(struct swarm *s, int64_t asked, int64_t now)
{
	if (s->got >= asked || s->longer > asked)
		return;
	s->longer = now;
	s->n_longer += s->n_longer < LONGER_MAX;
}

/* How often the patience of this request is doubled; doublings after the request do not count
 * for it. */
static unsigned int patience_doublings(const struct swarm *s,
				       const struct piece_flight *f)
{
	return s->n_longer - (s->n_longer && f->asked < s->longer);
}

/* The peer sends nothing: its pieces are asked from other peers at once. If it stays silent,
 * pieces that only it has are read from the origin until it sends again. */
static void handle_silent_peer(struct swarm *s, unsigned int peer,
			       int64_t asked, int64_t now)
{
	struct peer *p = &s->peers[peer];

	s->stats.stalls += p->n_flying;
	patience_double(s, asked, now);
	for (uint16_t i = s->first, next; i; i = next) {
		struct piece_flight *f = flight_at(s, i);
		uint32_t piece = f->piece;

		next = f->next;
		if (f->peer != peer)
			continue;
		flight_cancel(s, f);
		if (!s->pieces[piece].flight)
			swarm_want_again(s, piece);
	}
	if (!p->quiet)
		p->quiet = p->moved;
	p->moved = now;
	p->busy_until = now + QUIET_RETRY_NS;
	if (now - p->quiet < QUIET_NS)
		return;
	p->busy_until = now + SILENT_NS;
	peer_pieces_release(s, &s->silent, peer);
	promises_forget(s);
	/* If no peer was heard since then, this machine may be the one that stalls. */
	if (now - p->heard < SILENT_NS || s->heard <= p->heard)
		return;
	p->heard = now;
	peer_strike(s, peer, "stalls");
}

/* Do bytes of this request arrive, not much slower than from other peers? Then it is not
 * cancelled: they would arrive anyway, and take room from the request that replaces it. */
static bool flight_is_arriving(const struct swarm *s,
			       const struct piece_flight *f, int64_t now)
{
	double seconds = (double)(now - f->asked) / NS_PER_S;

	return f->came >= (double)s->rate / COMES_SLOWER * seconds && f->came;
}

static int64_t larger_patience_ns(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Few answers of a peer prove nothing: the first ones may have come in a burst that no link
 * sustains. Until there are more, the answer times of all peers count as well. */
static int64_t get_flight_patience_ns(const struct swarm *s,
				      const struct piece_flight *f)
{
	const struct peer *p = &s->peers[f->peer];
	int64_t ns =
		larger_patience_ns(LATE * f->expected_ns, s->lim.stall_min_ns);

	/* A refusal waits in the same queues, so it shows their delay; a lost packet is sent
	 * again after more than one such delay. */
	ns = larger_patience_ns(ns, LOSSES * s->refusal_ns);
	ns = larger_patience_ns(ns, answers_quantile(&p->answers, 95));
	if (p->answers.total < KNOWN)
		ns = larger_patience_ns(ns, answers_quantile(&s->answers, 95));
	ns <<= patience_doublings(s, f);
	return ns < PATIENCE_MAX_NS ? ns : PATIENCE_MAX_NS;
}

/* Take a late bulk request back from its peer; if nothing at all arrives from there, the peer
 * is silent. */
static void late_check(struct swarm *s, struct piece_flight *f, int64_t now)
{
	struct peer *p = &s->peers[f->peer];
	unsigned int peer = f->peer;
	int64_t patience = get_flight_patience_ns(s, f), silence, limit;

	/* Even a slow peer sends some bytes within this time. */
	silence = SILENT_NS << patience_doublings(s, f);
	if (silence > patience)
		silence = patience;
	if (now - p->moved > silence && now - f->asked > silence) {
		handle_silent_peer(s, peer, f->asked, now);
		return;
	}
	/* A request that names other pieces and is not being answered yet blocks all of them,
	 * so it gets less time. */
	if (flight_is_arriving(s, f, now))
		limit = SLOW * patience;
	else
		limit = f->n_others ? patience : 2 * patience;
	/* A second peer was asked for the piece and may bring it, so wait longer; but not for
	 * ever. */
	if (f->twin)
		limit = SLOW * patience;
	if (now - f->asked <= limit)
		return;
	/* The peer is slow, and no other peer has the piece: it has to come from the origin. */
	if (f->twin || !find_other_holders(s, f, true, now)) {
		if (now - f->asked <= SLOW * patience)
			return;
		rest_useless_peer(s, peer, now);
	}
	s->stats.stalls++;
	patience_double(s, f->asked, now);
	p->rate = p->rate / 2 + 1;
	flight_cancel(s, f);
}

static void patience_measure(struct swarm *s, int64_t now)
{
	double seconds = (double)(now - s->came_at) / NS_PER_S;
	uint64_t rate;

	if (now - s->came_at < MEASURE_NS)
		return;
	rate = (uint64_t)((double)(s->came_bytes - s->came_counted) / seconds);
	/* Without requests there is no rate to measure; start the average anew, with the first
	 * samples weighted equally. */
	if (!rate && !s->n_flights)
		s->n_measured = 0;
	else if (s->n_measured < MEASURE_WEIGHT)
		s->n_measured++;
	if (s->n_measured)
		s->came_rate = ((s->n_measured - 1) * s->came_rate + rate) /
			       s->n_measured;
	s->came_counted = s->came_bytes;
	s->came_at = now;
	rate = (uint64_t)((double)(s->sent_bytes - s->sent_counted) / seconds);
	s->sent_rate = (3 * s->sent_rate + rate) / 4;
	s->sent_counted = s->sent_bytes;
}

/* The process stood still: shift the start of all requests by the time lost, so that they are
 * not late. */
static void flights_shift_times(struct swarm *s, int64_t now)
{
	for (unsigned int i = 0; i < SWARM_PEERS_MAX; i++)
		s->peers[i].moved = now;
	for (uint16_t i = s->first; i; i = flight_at(s, i)->next) {
		int64_t *asked = &flight_at(s, i)->asked;

		*asked =
			*asked > s->checked ? now : *asked + (now - s->checked);
	}
}

void flights_check(struct swarm *s, int64_t now)
{
	/* A strike may end all flights of a peer. Only `next` is kept, and flights that end
	 * this way are never before it in the list. */
	uint16_t left = (uint16_t)s->n_flights;

	patience_measure(s, now);
	if (now - s->checked > STILL_NS)
		flights_shift_times(s, now);
	s->checked = now;
	for (uint16_t i = s->first, next; i && left; i = next, left--) {
		struct piece_flight *f = flight_at(s, i);
		uint32_t piece = f->piece;
		unsigned int before = s->n_flights;

		next = f->next;
		if (f->peer == ORIGIN && f->expires <= now)
			flight_fails(s, f);
		else if (f->peer != ORIGIN)
			late_check(s, f, now);
		if (s->n_flights == before)
			hedge_check(s, f, now);
		else if (!s->pieces[piece].flight)
			swarm_want_again(s, piece);
		if (s->n_flights + 1 < before)
			return; /* all flights of a peer ended, maybe `next`
			         * too */
	}
}
