// SPDX-License-Identifier: Apache-2.0
/* Creation and end of a swarm, and the round that decides which pieces to ask for. */
#include <errno.h>

#include "p2p/core/swarm_parts_priv.h"

/* Until the hot set is complete, cold pieces have 1 / COLD_PART of what may be under way. */
#define COLD_PART 4
#define TICK_SHIFT 17 /* a tick is 131 us; 32 bits of ticks last six days */
/* Half of the ticks that fit: past this, the origin of ticks is moved forward ... */
#define TICKS_MOST ((int64_t)UINT32_MAX / 2)
#define TICKS_KEPT \
	((int64_t)1 << 21) /* ... so that the last minutes still have a tick */

const struct swarm_limits swarm_limits_default = {
	.window = 0,
	.flying_max = 64u << 20,
	.flying_pieces = 7,
	.unpacked_max = UINT64_MAX,
	.peer_min = 512u << 10,
	.peer_max = 16u << 20,
	.credit_ns = 50 * NS_PER_MS,
	.origin_min = 1u << 20,
	.origin_max = 64u << 20,
	.origin_ns = 200 * NS_PER_MS,
	.lease_wait_ns = 2 * NS_PER_S,
	.stagger_ns = 50 * NS_PER_MS,
	.turn_ns = 500 * NS_PER_MS,
	.promise_max_ns = 10 * NS_PER_S,
	.hedge_min_ns = 20 * NS_PER_MS,
	.stall_min_ns = 500 * NS_PER_MS,
	.news_ns = 10 * NS_PER_MS,
	.hedge_permille = 50,
};

/* xorshift64*, G. Marsaglia and S. Vigna: small and good enough to break ties. */
uint64_t swarm_random(struct swarm *s)
{
	s->random ^= s->random >> 12;
	s->random ^= s->random << 25;
	s->random ^= s->random >> 27;
	return (s->random * UINT64_C(0x2545f4914f6cdd1d)) >> 16;
}

uint32_t tick_of(const struct swarm *s, int64_t t)
{
	int64_t ticks = (t - s->born) >> TICK_SHIFT;

	if (ticks < 0)
		return 0;
	return ticks > UINT32_MAX ? UINT32_MAX : (uint32_t)ticks;
}

static uint32_t subtract_ticks(uint32_t tick, int64_t less)
{
	return tick > less ? (uint32_t)(tick - less) : 0;
}

void ticks_follow(struct swarm *s, int64_t now)
{
	int64_t ticks = (now - s->born) >> TICK_SHIFT;
	int64_t less = ticks - TICKS_KEPT;

	if (ticks < TICKS_MOST)
		return;
	s->born += less << TICK_SHIFT;
	s->tick = tick_of(s, now);
	for (uint32_t i = 0; i < s->cfg.n_pieces; i++) {
		struct piece *p = &s->pieces[i];

		p->after = subtract_ticks(p->after, less);
		p->rest = subtract_ticks(p->rest, less);
		p->promised = subtract_ticks(p->promised, less);
		p->promised_since = subtract_ticks(p->promised_since, less);
	}
}

static int check_swarm_config(const struct swarm_config *cfg, struct error *err)
{
	const struct swarm_limits *l = &cfg->limits;

	if (!cfg->n_pieces || cfg->n_pieces > SWARM_PIECES_MAX)
		return error_set(err, EINVAL, "%u pieces: 1 to %u can be",
				 cfg->n_pieces, SWARM_PIECES_MAX);
	if (l->flying_max == 0 || l->flying_pieces == 0 ||
	    l->peer_min > l->peer_max || l->origin_min > l->origin_max)
		return error_set(err, EINVAL, "limits of a swarm do not fit");
	return 0;
}

static int swarm_allocate(struct swarm *s, struct error *err)
{
	uint32_t n = s->cfg.n_pieces;

	s->log_room = n;
	s->pieces = calloc(n, sizeof(*s->pieces));
	s->log = calloc(s->log_room, sizeof(*s->log));
	s->cold.offered = calloc(n, sizeof(*s->cold.offered));
	s->cold.unheld = calloc(n, sizeof(*s->cold.unheld));
	if (!s->pieces || !s->log || !s->cold.offered || !s->cold.unheld)
		return error_nomem(err);
	return 0;
}

int swarm_new(const struct swarm_config *cfg, int64_t now, struct swarm **ret,
	      struct error *err)
{
	AUTO(swarm) s = NULL;
	int rc = check_swarm_config(cfg, err);

	if (rc < 0)
		return rc;
	s = calloc(1, sizeof(*s));
	if (!s)
		return error_nomem(err);
	s->cfg = *cfg;
	s->lim = cfg->limits;
	s->born = s->came_at = s->checked = now;
	turns_begin(s, now);
	s->random = cfg->seed ^ UINT64_C(0x9e3779b97f4a7c15);
	if (!s->random)
		s->random = 1;
	s->has_tracker = true;
	rc = swarm_allocate(s, err);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < cfg->n_pieces; i++)
		s->size += cfg->sizes[i];
	s->size = s->size / cfg->n_pieces ? s->size / cfg->n_pieces : 1;
	for (uint16_t i = FLIGHTS_MAX; i > 0; i--) {
		s->flights[i - 1].next = s->unused;
		s->unused = i;
	}
	*ret = steal_ptr(&s);
	return 0;
}

void swarm_free(struct swarm *s)
{
	if (!s)
		return;
	free(s->pieces);
	free(s->log);
	free(s->hot.pieces);
	free(s->hot.window);
	free(s->cold.offered);
	free(s->cold.unheld);
	free(s->demands);
	free(s);
}

void swarm_give_up(struct swarm *s, uint32_t piece, int rc)
{
	struct piece *p = &s->pieces[piece];

	flight_cancel_all(s, piece);
	demand_remove(s, piece);
	if (p->flags & PIECE_HOT)
		s->hot.total--;
	if (p->flags & PIECE_COLD)
		s->cold.total--;
	p->flags &= ~PIECE_WANTED;
	p->failed = 0;
	s->cfg.host->fail(s->cfg.arg, piece, rc);
}

/* ------------------------------------------------------------ the round --- */

static void pump_demand(struct swarm *s, int64_t now)
{
	for (size_t i = 0; i < s->n_demands; i++) {
		uint32_t piece = s->demands[i].piece;
		struct piece *p = &s->pieces[piece];
		uint32_t size = s->cfg.sizes[piece];
		uint64_t mask = 0;

		if (p->flight || !p->holders)
			continue;
		/* A peer's credit bounds bulk only, so demand may ask any peer that is not
		 * busy. A silent peer is tried with one piece at a time, when no other peer can
		 * be asked: a reader may be the only one that still asks it. */
		for (unsigned int j = 0; j < SWARM_PEERS_MAX; j++)
			if (p->holders >> j & 1 &&
			    s->peers[j].busy_until <= now &&
			    !(s->silent >> j & 1 && s->peers[j].n_flying))
				mask |= UINT64_C(1) << j;
		if (mask & ~s->silent)
			mask &= ~s->silent;
		if (!mask || !flight_fits(s, piece, true))
			continue;
		(void)flight_start(s, (uint8_t)choose_peer(s, mask, size),
				   piece, SOURCE_DEMAND, now);
	}
}

static void pump_bulk(struct swarm *s, uint32_t (*choose)(struct swarm *s),
		      uint64_t wanted, int64_t now)
{
	while (s->ready && s->flying - s->origin_flying < wanted) {
		uint32_t piece = choose(s);
		struct piece_flight *f;
		struct peer *p;

		if (piece == SWARM_NONE || !flight_fits(s, piece, false))
			return;
		f = flight_start(s,
				 (uint8_t)choose_peer(
					 s, piece_askable(s, &s->pieces[piece]),
					 s->cfg.sizes[piece]),
				 piece, piece_priority(&s->pieces[piece]), now);
		p = &s->peers[f->peer];
		if (p->flying >= peer_credit(s, p) || s->silent >> f->peer & 1)
			s->ready &= ~(UINT64_C(1) << f->peer);
	}
}

/* Reads of the origin take up to half of the wanted bytes, because other nodes wait for the hot
 * pieces that this node reads. */
static uint64_t hot_bytes_wanted(const struct swarm *s, uint64_t wanted)
{
	if (s->origin_flying > wanted / 2)
		return wanted - wanted / 2;
	return wanted - s->origin_flying;
}

void swarm_pump(struct swarm *s, int64_t now)
{
	s->pumped = now;
	ticks_follow(s, now);
	pump_demand(s, now);
	if (!s->is_paused) {
		uint64_t wanted = flying_wanted(s);

		choose_ready(s, now);
		pump_bulk(s, choose_hot, hot_bytes_wanted(s, wanted), now);
		/* Hot pieces that cannot be asked for right now will be available in a moment;
		 * cold pieces leave room for them. */
		if (s->hot.here < s->hot.total)
			wanted /= COLD_PART;
		pump_bulk(s, choose_cold, wanted, now);
	}
	origin_pump(s, now);
}

static void demands_check(struct swarm *s, int64_t now)
{
	for (size_t i = 0; i < s->n_demands;) {
		if (s->demands[i].deadline <= now)
			swarm_give_up(s, s->demands[i].piece, -ETIMEDOUT);
		else
			i++;
	}
}

static int64_t get_check_interval_ns(const struct swarm *s)
{
	int64_t ns = s->answer_min / CHECKS_OF_ANSWER;

	if (s->n_demands || ns < CHECK_NS)
		return CHECK_NS;
	return ns < CHECK_MAX_NS ? ns : CHECK_MAX_NS;
}

int64_t swarm_tick(struct swarm *s, int64_t now)
{
	demands_check(s, now);
	flights_check(s, now);
	origin_check(s, now);
	swarm_pump(s, now);
	if (s->n_demands || s->n_flights || s->n_calls ||
	    (!s->is_paused &&
	     (s->hot.here < s->hot.total || s->cold.here < s->cold.total)))
		return now + get_check_interval_ns(s);
	return INT64_MAX;
}

/* ------------------------------------------------------------- what callers may look up --- */

bool swarm_has(const struct swarm *s, uint32_t piece)
{
	return piece < s->cfg.n_pieces && s->pieces[piece].flags & PIECE_HERE;
}

bool swarm_gives(const struct swarm *s, uint32_t piece)
{
	return swarm_has(s, piece) &&
	       !(s->pieces[piece].flags & PIECE_UNVOUCHED);
}

bool swarm_wants(const struct swarm *s, uint32_t piece)
{
	return piece < s->cfg.n_pieces &&
	       s->pieces[piece].flags & PIECE_WANTED && !swarm_has(s, piece);
}

void swarm_get_stats(const struct swarm *s, struct swarm_stats *ret)
{
	*ret = s->stats;
	ret->pieces = s->cfg.n_pieces;
	ret->have = s->have;
	ret->hot = s->hot.total;
	ret->hot_have = s->hot.here;
	ret->flying_bytes = s->flying;
	ret->peers = 0;
	for (unsigned int i = 0; i < SWARM_PEERS_MAX; i++)
		ret->peers += s->peers[i].is_joined;
}

bool swarm_get_peer(const struct swarm *s, unsigned int peer,
		    struct swarm_peer_stats *ret)
{
	const struct peer *p;

	if (peer >= SWARM_PEERS_MAX || !s->peers[peer].is_joined)
		return false;
	p = &s->peers[peer];
	*ret = (struct swarm_peer_stats){
		.distance = p->distance,
		.have = p->have,
		.bytes = p->bytes,
		.rate = p->rate,
		.answer_ns = answers_quantile(&p->answers, 50),
		.flying = p->flying,
		.strikes = p->strikes,
	};
	return true;
}
