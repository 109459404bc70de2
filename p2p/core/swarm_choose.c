// SPDX-License-Identifier: Apache-2.0
/* Which piece to ask for next, and which peer to ask. */

#include "p2p/core/swarm_parts_priv.h"

#define WAYS 4 /* the path's delay, times this, is kept full of requests */
#define BEST_MAX 4u
#define RESTING_MAX 2
#define ANSWER_SHIFT 16 /* the first bucket of answer times ends at 65 us */

/* Relative cost of a byte by distance, times two. */
static const uint64_t distance_cost[] = {
	[SWARM_SAME_RACK] = 2,
	[SWARM_SAME_ZONE] = 3,
	[SWARM_REMOTE] = 6,
};

/* --------------------------------------------------------------- rates and times of peers --- */

static unsigned int answer_bucket(int64_t ns)
{
	uint64_t x = (uint64_t)(ns > 0 ? ns : 0) >> ANSWER_SHIFT;
	unsigned int log, b;

	if (x < 2)
		return (unsigned int)x;
	log = 63 - (unsigned int)__builtin_clzll(x);
	b = 2 * log + (x >> (log - 1) & 1);
	return b < ANSWER_BUCKETS ? b : ANSWER_BUCKETS - 1;
}

/* The upper end of a bucket, in nanoseconds. */
static int64_t bucket_ns(unsigned int b)
{
	if (b < 2)
		return (int64_t)(b + 1) << ANSWER_SHIFT;
	return (int64_t)(3 + (b & 1)) << (b / 2 - 1 + ANSWER_SHIFT);
}

void answers_add(struct answers *a, int64_t ns)
{
	a->n[answer_bucket(ns)]++;
	if (++a->total < 256)
		return;
	a->total = 0; /* halve old samples, so that new ones count more */
	for (unsigned int i = 0; i < ANSWER_BUCKETS; i++) {
		a->n[i] /= 2;
		a->total += a->n[i];
	}
}

int64_t answers_quantile(const struct answers *a, unsigned int percent)
{
	unsigned int want = (a->total * percent + 99) / 100, seen = 0, i = 0;

	if (!a->total)
		return 0;
	while ((seen += a->n[i]) < want)
		i++;
	return bucket_ns(i);
}

static uint64_t rate_of(const struct swarm *s, const struct peer *p)
{
	uint64_t rate = p->rate ? p->rate : s->rate;

	return rate ? rate : 1;
}

uint64_t peer_credit(const struct swarm *s, const struct peer *p)
{
	uint64_t credit =
		rate_of(s, p) / 1000 * (uint64_t)(s->lim.credit_ns / NS_PER_MS);

	if (credit < s->lim.peer_min)
		return s->lim.peer_min;
	return credit > s->lim.peer_max ? s->lim.peer_max : credit;
}

int64_t peer_expected(const struct swarm *s, const struct peer *p,
		      uint32_t size)
{
	uint64_t bytes = p->flying + size;

	/* No rate is known yet, so nothing can be late. */
	if (!p->rate && !s->rate)
		return NS_PER_S;
	return (int64_t)((double)bytes / (double)rate_of(s, p) *
			 (double)NS_PER_S);
}

uint64_t flying_wanted(const struct swarm *s)
{
	/* Keep a few pieces in flight, so that some peer always sends; not many, or nodes that
	 * ask for much crowd out nodes that ask for little. Add what the network path holds:
	 * the arrival rate times a few delays. The delay is that of a refusal, which waits in
	 * the queues of both links but carries no data; without refusals, that of the shortest
	 * answer. */
	int64_t way = s->refusal_ns ? s->refusal_ns : s->answer_min;
	uint64_t usual = s->size * s->lim.flying_pieces +
			 (uint64_t)((double)s->came_rate * WAYS * (double)way /
				    NS_PER_S);
	uint64_t max = s->lim.flying_max - s->lim.flying_max / 8;

	return usual > max ? max : usual;
}

/* -------------------------------------------------------------------- choices --- */

void choose_ready(struct swarm *s, int64_t now)
{
	s->ready = 0;
	s->tick = tick_of(s, now);
	for (unsigned int i = 0; i < SWARM_PEERS_MAX; i++) {
		const struct peer *p = &s->peers[i];

		/* A silent peer is tried with one piece at a time. */
		if (p->is_joined && p->have && p->busy_until <= now &&
		    p->flying < peer_credit(s, p) &&
		    !(s->silent >> i & 1 && p->n_flying))
			s->ready |= UINT64_C(1) << i;
	}
}

uint64_t piece_askable(const struct swarm *s, const struct piece *p)
{
	uint64_t mask = p->holders & s->ready;

	if (p->rest <= s->tick)
		return mask;
	/* When several holders are already sending the piece, the other holders are too: ask
	 * none of them now. */
	if (__builtin_popcountll(p->resting & p->holders) >= RESTING_MAX)
		return 0;
	return mask & ~p->resting;
}

/* Can `piece` be asked for, and is it rarer than the rarest found so far? */
static bool is_rarer(const struct swarm *s, uint32_t piece, int *rarest)
{
	const struct piece *p = &s->pieces[piece];
	int n;

	if (p->flags & PIECE_LEASING || !piece_askable(s, p))
		return false;
	n = __builtin_popcountll(p->holders);
	if (n >= *rarest)
		return false;
	*rarest = n;
	return true;
}

/* Both choices start at a random place, so that nodes with the same view choose differently. */

uint32_t choose_hot(struct swarm *s)
{
	uint32_t best = SWARM_NONE, i, n;
	int rarest = SWARM_PEERS_MAX + 1;

	hot_refill(s);
	n = s->hot.n_window;
	i = n ? (uint32_t)(swarm_random(s) % n) : 0;
	for (; n > 0 && rarest > 1; n--) {
		if (i >= s->hot.n_window)
			i = 0;
		if (hot_leaves(s, i))
			continue;
		if (is_rarer(s, s->hot.window[i], &rarest))
			best = s->hot.window[i];
		i++;
	}
	return best;
}

uint32_t choose_cold(struct swarm *s)
{
	uint32_t best = SWARM_NONE, n = s->cold.n_offered, i;
	int rarest = SWARM_PEERS_MAX + 1;

	i = n ? (uint32_t)(swarm_random(s) % n) : 0;
	if (n > COLD_CHOICE)
		n = COLD_CHOICE;
	for (; n > 0 && rarest > 1; n--) {
		if (i >= s->cold.n_offered)
			i = 0;
		if (cold_offered_leaves(s, i))
			continue;
		if (is_rarer(s, s->cold.offered[i], &rarest))
			best = s->cold.offered[i];
		i++;
	}
	return best;
}

bool piece_is_unheld(const struct swarm *s, const struct piece *p)
{
	return !(p->holders & ~(s->useless | s->silent));
}

struct piece_candidate {
	unsigned int peer;
	uint64_t score;
};

/* Insert a candidate into the list of the BEST_MAX best, best first. */
static unsigned int insert_candidate(struct piece_candidate *best,
				     unsigned int n, struct piece_candidate c)
{
	unsigned int i = n < BEST_MAX ? n++ : BEST_MAX - 1;

	if (n == BEST_MAX && i == BEST_MAX - 1 && best[i].score &&
	    best[i].score <= c.score)
		return n;
	while (i > 0 && best[i - 1].score > c.score) {
		best[i] = best[i - 1];
		i--;
	}
	best[i] = c;
	return n;
}

unsigned int choose_peer(struct swarm *s, uint64_t mask, uint32_t size)
{
	struct piece_candidate best[BEST_MAX] = { { 0, 0 } };
	unsigned int n = 0, a, b;

	/* Begin at a random peer, so that equally good peers are chosen equally often. */
	unsigned int turn = (unsigned int)(swarm_random(s) % SWARM_PEERS_MAX);
	uint64_t turned = turn ? mask >> turn | mask << (64 - turn) : mask;

	while (turned) {
		unsigned int i = (unsigned int)__builtin_ctzll(turned);
		struct piece_candidate c = { (i + turn) % SWARM_PEERS_MAX, 0 };
		const struct peer *p = &s->peers[c.peer];

		turned &= turned - 1;
		c.score = (uint64_t)peer_expected(s, p, size) *
			  distance_cost[p->distance];
		n = insert_candidate(best, n, c);
	}
	/* All nodes find the same best peer; so draw two of the best at random and take the
	 * less loaded. */
	a = (unsigned int)(swarm_random(s) % n);
	b = (unsigned int)(swarm_random(s) % n);
	if (s->peers[best[a].peer].flying > s->peers[best[b].peer].flying)
		return best[b].peer;
	return best[a].peer;
}
