// SPDX-License-Identifier: Apache-2.0
/* Neighbours: joining and leaving, the pieces they announce, and the news they are sent. */
#include <errno.h>

#include "p2p/core/swarm_parts_priv.h"

#define QUARANTINE_NS (30 * NS_PER_S)
#define QUARANTINE_MAX_NS (300 * NS_PER_S)
/* News go out after this many times the usual gap between two arriving pieces. */
#define NEWS_GAPS 2
#define NEWS_GAPS_HOT 1
#define ETA_MIN_NS (100 * NS_PER_MS)
/* How long a reader waits at least and at most in all for pieces that neighbours promise, or
 * that other nodes read according to the tracker, however often that is repeated. In between:
 * twice the time that the origin takes. */
#define DEMAND_PATIENCE_NS NS_PER_S
#define DEMAND_PATIENCE_MAX_NS (5 * NS_PER_S)
/* Promises of a piece count for promise_max_ns, and count anew after this many times that: a
 * piece that was read once and lost by all may be read again. */
#define PROMISE_REST 8u

/* ------------------------------------------------------------------ membership --- */

void swarm_peer_join(struct swarm *s, unsigned int peer,
		     enum swarm_distance distance, unsigned int quarantines,
		     int64_t now)
{
	if (peer >= SWARM_PEERS_MAX || s->peers[peer].is_joined)
		return;
	s->peers[peer] = (struct peer){
		.is_joined = true,
		.distance = distance,
		.quarantines = quarantines,
		.moved = now,
		.heard = now,
		.snapshot = s->have ? 0 : s->cfg.n_pieces,
		.told = s->logged,
	};
}

void promises_forget(struct swarm *s)
{
	if (s->has_tracker)
		return; /* without a tracker promises are forgotten; with
		         * one they are short anyway */
	for (uint32_t i = 0; i < s->cfg.n_pieces; i++)
		s->pieces[i].promised = 0;
}

int64_t demand_patience(const struct swarm *s)
{
	int64_t ns = 2 * s->origin_answer_ns;

	if (ns < DEMAND_PATIENCE_NS)
		return DEMAND_PATIENCE_NS;
	return ns < DEMAND_PATIENCE_MAX_NS ? ns : DEMAND_PATIENCE_MAX_NS;
}

uint32_t promise_ends(const struct swarm *s, uint32_t piece,
		      const struct demand *d)
{
	const struct piece *p = &s->pieces[piece];
	uint32_t last;

	if (!d || !p->promised)
		return p->promised;
	last = tick_of(s, d->since + demand_patience(s));
	return p->promised < last ? p->promised : last;
}

static void peer_forget(struct swarm *s, unsigned int peer)
{
	uint64_t others = ~(UINT64_C(1) << peer);

	for (uint32_t i = 0; i < s->cfg.n_pieces; i++)
		s->pieces[i].holders &= others;
	promises_forget(s);
	s->peers[peer].have = 0;
	s->ready &= others;
	s->useless &= others;
	s->silent &= others;
	flights_of_peer_end(s, (uint8_t)peer);
}

void swarm_peer_takes_one(struct swarm *s, unsigned int peer)
{
	if (peer < SWARM_PEERS_MAX && s->peers[peer].is_joined)
		s->peers[peer].takes_one = true;
}

void swarm_peer_leave(struct swarm *s, unsigned int peer, int64_t now)
{
	if (peer >= SWARM_PEERS_MAX || !s->peers[peer].is_joined)
		return;
	peer_forget(s, peer);
	s->peers[peer].is_joined = false;
	swarm_pump(s, now);
}

void peer_strike(struct swarm *s, unsigned int peer, const char *why)
{
	struct peer *p = &s->peers[peer];
	int64_t ns = QUARANTINE_NS;

	s->stats.strikes++;
	if (++p->strikes < STRIKES_MAX)
		return;
	for (unsigned int i = 0; i < p->quarantines && ns < QUARANTINE_MAX_NS;
	     i++)
		ns *= 2;
	if (ns > QUARANTINE_MAX_NS)
		ns = QUARANTINE_MAX_NS;
	p->strikes = 0;
	p->quarantines++;
	p->busy_until = INT64_MAX; /* until the host has closed the link */
	peer_forget(s, peer);
	s->cfg.host->quarantine(s->cfg.arg, peer, ns, why);
}

/* -------------------------------------------------------------- what neighbours announce --- */

static bool news_range_is_valid(const struct swarm *s, unsigned int peer,
				struct swarm_range r)
{
	return peer < SWARM_PEERS_MAX && s->peers[peer].is_joined &&
	       r.first <= s->cfg.n_pieces && r.n <= s->cfg.n_pieces - r.first;
}

int swarm_peer_has(struct swarm *s, unsigned int peer, struct swarm_range r,
		   int64_t now)
{
	uint64_t bit = UINT64_C(1) << (peer % SWARM_PEERS_MAX);

	if (!news_range_is_valid(s, peer, r))
		return -EINVAL;
	if (s->peers[peer].busy_until == INT64_MAX)
		return 0; /* the peer is being dropped, so its news do not
		           * count */
	for (uint32_t i = r.first; i < r.first + r.n; i++) {
		s->peers[peer].have += !(s->pieces[i].holders & bit);
		if (!s->pieces[i].holders)
			turn_progress(s, i, now);
		s->pieces[i].holders |= bit;
		cold_offer(s, i);
	}
	if (now - s->pumped >= PUMP_NS)
		swarm_pump(s, now);
	return 0;
}

int swarm_peer_lost(struct swarm *s, unsigned int peer, struct swarm_range r,
		    int64_t now)
{
	uint64_t bit = UINT64_C(1) << (peer % SWARM_PEERS_MAX);

	if (!news_range_is_valid(s, peer, r))
		return -EINVAL;
	for (uint32_t i = r.first; i < r.first + r.n; i++) {
		s->peers[peer].have -= s->pieces[i].holders & bit ? 1 : 0;
		s->pieces[i].holders &= ~bit;
	}
	/* News left out pieces that the peer had itself. It lost some of them, so announce all
	 * pieces from there on again. */
	if (s->peers[peer].snapshot > r.first)
		s->peers[peer].snapshot = r.first;
	return 0;
}

/* False: promises have kept this piece from the origin for long enough. */
static bool promise_take(struct swarm *s, struct piece *p, uint32_t until,
			 int64_t now)
{
	uint32_t tick = tick_of(s, now);
	uint64_t most = tick_of(s, s->born + s->lim.promise_max_ns);

	if (!p->promised_since ||
	    tick - p->promised_since >= PROMISE_REST * most)
		p->promised_since = tick ? tick : 1;
	if (until > p->promised_since + most)
		until = (uint32_t)(p->promised_since + most);
	if (until <= tick)
		return false;
	if (p->promised < until)
		p->promised = until;
	return true;
}

int swarm_peer_promises(struct swarm *s, unsigned int peer,
			struct swarm_range r, int64_t eta_ns, int64_t now)
{
	uint32_t until;

	if (!news_range_is_valid(s, peer, r) || eta_ns < 0)
		return -EINVAL;
	if (eta_ns > s->lim.promise_max_ns)
		eta_ns = s->lim.promise_max_ns;
	ticks_follow(s, now);
	until = tick_of(s, now + eta_ns);
	for (uint32_t i = r.first; i < r.first + r.n; i++)
		if (promise_take(s, &s->pieces[i], until, now))
			turn_promised(s, i, now);
	return 0;
}

/* -------------------------------------------------------------- news for neighbours --- */

void news_log(struct swarm *s, uint32_t piece)
{
	s->log[s->logged++ % s->log_room] = piece;
}

void news_promise(struct swarm *s, uint32_t piece)
{
	s->promises[s->promised++ % LOG_PROMISES] = piece;
}

void swarm_doubt(struct swarm *s, uint32_t piece)
{
	if (piece < s->cfg.n_pieces && !swarm_has(s, piece))
		s->pieces[piece].flags |= PIECE_UNVOUCHED;
}

void swarm_vouch(struct swarm *s, struct swarm_range r)
{
	for (uint32_t i = r.first; i - r.first < r.n && i < s->cfg.n_pieces;
	     i++) {
		origin_owes_no_more(s, i);
		if (!(s->pieces[i].flags & PIECE_UNVOUCHED))
			continue;
		s->pieces[i].flags &= (uint16_t)~PIECE_UNVOUCHED & FLAGS;
		if (swarm_has(s, i))
			news_log(s, i);
	}
}

/* False: there is no room for one more range. */
static bool news_add_piece(struct swarm_range *ranges, size_t *n,
			   uint32_t piece)
{
	if (*n && ranges[*n - 1].first + ranges[*n - 1].n == piece) {
		ranges[*n - 1].n++;
		return true;
	}
	if (*n == SWARM_NEWS_MAX)
		return false;
	ranges[(*n)++] = (struct swarm_range){ piece, 1 };
	return true;
}

/* A neighbour that has a piece itself needs no news of it; this holds for most pieces of most
 * neighbours, since they came from each other. */
static bool peer_lacks_piece(const struct swarm *s, const struct peer *p,
			     uint32_t piece)
{
	return !(s->pieces[piece].holders >> (p - s->peers) & 1);
}

static void news_add_snapshot(const struct swarm *s, struct peer *p,
			      struct swarm_news *ret)
{
	for (; p->snapshot < s->cfg.n_pieces; p->snapshot++)
		if (swarm_gives(s, p->snapshot) &&
		    peer_lacks_piece(s, p, p->snapshot) &&
		    !news_add_piece(ret->have, &ret->n_have, p->snapshot))
			return;
}

/* Report the present state of each logged piece: a piece that came and went twice is reported
 * once too often at worst. */
static void news_add_log(const struct swarm *s, struct peer *p,
			 struct swarm_news *ret)
{
	for (; p->told < s->logged; p->told++) {
		uint32_t piece = s->log[p->told % s->log_room];
		bool is_here = swarm_has(s, piece);

		if (is_here &&
		    (!swarm_gives(s, piece) || !peer_lacks_piece(s, p, piece)))
			continue;
		if (is_here ? !news_add_piece(ret->have, &ret->n_have, piece)
			    : !news_add_piece(ret->lost, &ret->n_lost, piece))
			return;
	}
}

static bool is_read_from_origin(const struct swarm *s, uint32_t piece)
{
	uint16_t i = s->pieces[piece].flight;

	return i && s->flights[i - 1].peer == ORIGIN;
}

static void news_add_promises(const struct swarm *s, struct peer *p,
			      struct swarm_news *ret)
{
	if (s->promised - p->told_promises > LOG_PROMISES)
		p->told_promises = s->promised - LOG_PROMISES;
	for (; p->told_promises < s->promised; p->told_promises++) {
		uint32_t piece = s->promises[p->told_promises % LOG_PROMISES];

		if (is_read_from_origin(s, piece) &&
		    peer_lacks_piece(s, p, piece) &&
		    !news_add_piece(ret->promised, &ret->n_promised, piece))
			return;
	}
}

static int compare_ranges_by_first(const void *a, const void *b)
{
	const struct swarm_range *x = a, *y = b;

	return (x->first > y->first) - (x->first < y->first);
}

/* Sort the ranges and drop doubles: a piece that came twice is in the log twice. */
static void ranges_sort(struct swarm_range *ranges, size_t *n)
{
	size_t kept = 0;

	qsort(ranges, *n, sizeof(*ranges), compare_ranges_by_first);
	for (size_t i = 0; i < *n; i++) {
		struct swarm_range *last = kept ? &ranges[kept - 1] : NULL;
		uint32_t end = ranges[i].first + ranges[i].n;

		if (!last || ranges[i].first > last->first + last->n)
			ranges[kept++] = ranges[i];
		else if (end > last->first + last->n)
			last->n = end - last->first;
	}
	*n = kept;
}

int64_t swarm_news_ns(const struct swarm *s)
{
	bool is_hot = s->hot.here < s->hot.total;
	int64_t ns = (is_hot ? NEWS_GAPS_HOT : NEWS_GAPS) * s->gap_ns;

	if (ns < s->lim.news_ns)
		return s->lim.news_ns;
	return ns < NEWS_MAX_NS ? ns : NEWS_MAX_NS;
}

bool swarm_news(struct swarm *s, unsigned int peer, struct swarm_news *ret)
{
	struct peer *p;

	ret->n_have = ret->n_lost = ret->n_promised = 0;
	ret->eta_ns = s->origin_answer_ns ? 2 * s->origin_answer_ns : NS_PER_S;
	if (ret->eta_ns < ETA_MIN_NS)
		ret->eta_ns = ETA_MIN_NS;
	/* Without a tracker, nothing limits how many nodes read the origin at once, so a read
	 * may take long. */
	if (!s->has_tracker)
		ret->eta_ns = s->lim.promise_max_ns;
	if (peer >= SWARM_PEERS_MAX || !s->peers[peer].is_joined)
		return false;
	p = &s->peers[peer];
	if (s->logged - p->told > s->log_room) {
		p->snapshot = 0; /* the log has overwritten its entries for
		                  * this peer: start from the beginning */
		p->told = s->logged;
	}
	news_add_snapshot(s, p, ret);
	if (p->snapshot == s->cfg.n_pieces)
		news_add_log(s, p, ret);
	news_add_promises(s, p, ret);
	ranges_sort(ret->have, &ret->n_have);
	ranges_sort(ret->lost, &ret->n_lost);
	ranges_sort(ret->promised, &ret->n_promised);
	return p->snapshot < s->cfg.n_pieces || p->told < s->logged;
}
