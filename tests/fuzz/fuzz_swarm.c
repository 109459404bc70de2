// SPDX-License-Identifier: Apache-2.0
/*
 * The swarm under any order of events.  The input is a script; a host keeps book
 * of what it was told and traps when the core breaks a rule: bounds, asking
 * somebody for what he does not have, asking twice without a hedge, a demand that
 * never ends.  A script is played twice and has to end in the same actions.
 */
#include "p2p/core/swarm.h"

#include <errno.h>
#include <string.h>

#define PIECES_MAX 160u
#define PEERS 6u
#define CALLS 8u
#define MS INT64_C(1000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

struct script {
	const uint8_t *data;
	size_t len;
};

struct call {
	uint32_t pieces[SWARM_LEASE_MAX];
	size_t n;
	int64_t asked;
};

struct world {
	struct script script;
	struct swarm *swarm;
	struct swarm_limits limits;
	uint32_t n_pieces, sizes[PIECES_MAX];
	int64_t now;
	bool joined[PEERS], is_left[PEERS];
	bool has[PEERS][PIECES_MAX];   /* it said so */
	bool asked[PEERS][PIECES_MAX]; /* and was asked */
	/* ... with these, until it says which; in how many such they are. */
	size_t n_others[PEERS][PIECES_MAX];
	uint32_t others[PEERS][PIECES_MAX][SWARM_OTHERS_MAX];
	unsigned int n_other[PIECES_MAX];
	uint64_t peer_flying[PEERS];
	int64_t peer_asked[PEERS]; /* when, the last time */
	bool reading[PIECES_MAX];  /* from the origin */
	bool may_read[PIECES_MAX];
	int64_t demanded[PIECES_MAX]; /* deadline; 0: nobody waits */
	int64_t since[PIECES_MAX];    /* somebody does */
	bool refused[PIECES_MAX];     /* the tracker said that others read it */
	bool has_tracker;
	struct call calls[CALLS];
	size_t n_calls;
	uint64_t actions;
};

/* Of what was asked for: as much as the largest, until it says which. */
static uint64_t size_of(const struct world *w, unsigned int peer,
			uint32_t piece)
{
	uint32_t size = w->sizes[piece];

	for (size_t k = 0; k < w->n_others[peer][piece]; k++)
		if (w->sizes[w->others[peer][piece][k]] > size)
			size = w->sizes[w->others[peer][piece][k]];
	return size;
}

static void must(bool holds)
{
	if (!holds)
		__builtin_trap();
}

static uint8_t next(struct script *s)
{
	if (!s->len)
		return 0;
	s->len--;
	return *s->data++;
}

static void act(struct world *w, uint64_t what, uint64_t a, uint64_t b)
{
	w->actions = (w->actions ^ what ^ a << 8 ^ b << 32) *
		     UINT64_C(0x100000001b3);
}

/* ------------------------------------------------------------------- the host --- */

/* Nobody else is asked for what would do as well; and it is not asked alone. */
static void must_be_free(const struct world *w, unsigned int peer,
			 uint32_t piece, unsigned int most)
{
	unsigned int already = 0;

	must(piece < w->n_pieces && w->has[peer][piece]);
	must(!w->asked[peer][piece]);
	for (unsigned int i = 0; i < PEERS; i++)
		already += w->asked[i][piece];
	must(already <= most && !w->n_other[piece]);
}

static void host_ask(void *arg, unsigned int peer, const uint32_t *pieces,
		     size_t n, enum source_priority priority)
{
	struct world *w = arg;
	uint32_t piece = pieces[0];

	must(peer < PEERS && w->joined[peer] && !w->is_left[peer]);
	must(n >= 1 && n <= 1 + SWARM_OTHERS_MAX);
	must(n == 1 || priority != SOURCE_DEMAND);
	must_be_free(w, peer, piece, 1);
	for (size_t k = 1; k < n; k++) {
		must_be_free(w, peer, pieces[k], 0);
		for (size_t j = 0; j < k; j++)
			must(pieces[j] != pieces[k]);
	}
	for (size_t k = 1; k < n; k++)
		w->n_other[pieces[k]]++;
	w->n_others[peer][piece] = n - 1;
	memcpy(w->others[peer][piece], pieces + 1, (n - 1) * sizeof(*pieces));
	must(priority == SOURCE_DEMAND ||
	     w->peer_flying[peer] < w->limits.peer_max);
	w->asked[peer][piece] = true;
	w->peer_asked[peer] = w->now;
	w->peer_flying[peer] += size_of(w, peer, piece);
	act(w, 1, peer, piece);
}

static void not_asked(struct world *w, unsigned int peer, uint32_t piece)
{
	if (!w->asked[peer][piece])
		return;
	w->asked[peer][piece] = false;
	w->peer_flying[peer] -= size_of(w, peer, piece);
	for (size_t k = 0; k < w->n_others[peer][piece]; k++)
		w->n_other[w->others[peer][piece][k]]--;
	w->n_others[peer][piece] = 0;
}

static void host_cancel(void *arg, unsigned int peer, uint32_t piece)
{
	struct world *w = arg;

	must(peer < PEERS && piece < w->n_pieces && w->asked[peer][piece]);
	not_asked(w, peer, piece);
	act(w, 2, peer, piece);
}

/* Without a lease, for a reader who has waited for what others are said to read. */
static bool has_waited(const struct world *w, uint32_t piece)
{
	return w->refused[piece] && w->demanded[piece] &&
	       w->now - w->since[piece] >= 1000 * MS;
}

static void host_origin(void *arg, const uint32_t *pieces, size_t n,
			enum source_priority priority)
{
	struct world *w = arg;

	must(n > 0 && n <= SWARM_LEASE_MAX);
	for (size_t i = 0; i < n; i++) {
		must(pieces[i] < w->n_pieces);
		must(i == 0 || pieces[i] > pieces[i - 1]);
		must(w->may_read[pieces[i]] || !w->has_tracker ||
		     has_waited(w, pieces[i]));
		w->may_read[pieces[i]] = false;
		w->reading[pieces[i]] = true;
		act(w, 3, pieces[i], priority);
	}
}

static void host_lease(void *arg, const uint32_t *pieces, size_t n,
		       enum source_priority priority)
{
	struct world *w = arg;
	struct call *c = &w->calls[w->n_calls];

	must(n > 0 && n <= SWARM_LEASE_MAX);
	for (size_t i = 0; i < n; i++) {
		must(pieces[i] < w->n_pieces);
		for (size_t j = 0; j < i; j++)
			must(pieces[i] != pieces[j]);
	}
	act(w, 4, n, pieces[0]);
	if (w->n_calls == CALLS) {
		w->n_calls--; /* the last one is never answered */
		c--;
	}
	memcpy(c->pieces, pieces, n * sizeof(*pieces));
	c->n = n;
	c->asked = w->now;
	w->n_calls++;
}

static void host_quarantine(void *arg, unsigned int peer, int64_t ns,
			    const char *why)
{
	struct world *w = arg;

	must(peer < PEERS && w->joined[peer] && why);
	must(ns >= 30000 * MS && ns <= 300000 * MS);
	w->is_left[peer] = true;
	for (uint32_t i = 0; i < w->n_pieces; i++)
		not_asked(w, peer, i);
	act(w, 5, peer, (uint64_t)ns);
}

static void host_fail(void *arg, uint32_t piece, int rc)
{
	struct world *w = arg;

	must(piece < w->n_pieces && rc < 0);
	w->demanded[piece] = 0;
	act(w, 6, piece, (uint64_t)-rc);
}

static const struct swarm_host host = {
	.ask = host_ask,
	.cancel = host_cancel,
	.origin = host_origin,
	.lease = host_lease,
	.quarantine = host_quarantine,
	.fail = host_fail,
};

/* ----------------------------------------------------------------- the events --- */

static void on_demand(struct world *w, unsigned int peer, uint32_t piece)
{
	int64_t deadline = w->now + (1 + next(&w->script)) * 20 * MS;

	if (swarm_has(w->swarm, piece))
		return;
	if (!w->demanded[piece])
		w->since[piece] = w->now;
	if (w->demanded[piece] < deadline)
		w->demanded[piece] = deadline;
	must(swarm_demand(w->swarm, piece, w->now, deadline) == 0);
}

static void on_want(struct world *w, unsigned int peer, uint32_t piece)
{
	uint32_t pieces[PIECES_MAX];
	uint32_t n = next(&w->script) % (w->n_pieces + 1), step = 1;

	step += next(&w->script) % 3;
	for (uint32_t i = 0; i < n; i++)
		pieces[i] = (piece + i * step) % w->n_pieces;
	must(swarm_want(w->swarm, peer & 1 ? SOURCE_HOT : SOURCE_COLD, pieces,
			n, w->now) == 0);
}

static void on_forget(struct world *w, unsigned int peer, uint32_t piece)
{
	static const enum source_priority kinds[] = { SOURCE_DEMAND, SOURCE_HOT,
						      SOURCE_COLD };

	if (piece % 3 == 0)
		memset(w->demanded, 0, sizeof(w->demanded));
	swarm_forget(w->swarm, kinds[piece % 3], w->now);
}

static void leave(struct world *w, unsigned int peer)
{
	for (uint32_t i = 0; i < w->n_pieces; i++) {
		not_asked(w, peer, i);
		w->has[peer][i] = false;
	}
	w->joined[peer] = w->is_left[peer] = false;
	swarm_peer_leave(w->swarm, peer, w->now);
}

static void on_peer(struct world *w, unsigned int peer, uint32_t piece)
{
	if (w->joined[peer]) {
		leave(w, peer);
		return;
	}
	w->joined[peer] = true;
	swarm_peer_join(w->swarm, peer, (enum swarm_distance)(piece % 3),
			piece % 7, w->now);
}

static void on_has(struct world *w, unsigned int peer, uint32_t piece)
{
	struct swarm_range r = { piece, next(&w->script) % 32u };

	if (r.n > w->n_pieces - piece || !w->joined[peer]) {
		must(swarm_peer_has(w->swarm, peer, r, w->now) == -EINVAL);
		return;
	}
	for (uint32_t i = 0; i < r.n; i++)
		w->has[peer][piece + i] = true;
	must(swarm_peer_has(w->swarm, peer, r, w->now) == 0);
}

static void on_peer_lost(struct world *w, unsigned int peer, uint32_t piece)
{
	struct swarm_range r = { piece, 1 };

	if (!w->joined[peer])
		return;
	w->has[peer][piece] = false;
	must(swarm_peer_lost(w->swarm, peer, r, w->now) == 0);
}

static void on_promise(struct world *w, unsigned int peer, uint32_t piece)
{
	struct swarm_range r = { piece, 1 };
	int rc = swarm_peer_promises(w->swarm, peer, r,
				     next(&w->script) * 10 * MS, w->now);

	must(rc == (w->joined[peer] ? 0 : -EINVAL));
}

/* The first piece from `piece` on that this peer was asked for. */
static uint32_t asked_from(const struct world *w, unsigned int peer,
			   uint32_t piece)
{
	for (uint32_t i = 0; i < w->n_pieces; i++, piece++)
		if (w->asked[peer][piece % w->n_pieces])
			return piece % w->n_pieces;
	return SWARM_NONE;
}

/* It says which of them it sends. */
static uint32_t begins(struct world *w, unsigned int peer, uint32_t first)
{
	size_t k = next(&w->script) % (1 + w->n_others[peer][first]);
	uint32_t piece = k ? w->others[peer][first][k - 1] : first;

	not_asked(w, peer, first);
	w->asked[peer][piece] = true;
	w->peer_flying[peer] += w->sizes[piece];
	swarm_begins(w->swarm, peer, piece);
	return piece;
}

static void on_begins(struct world *w, unsigned int peer, uint32_t piece)
{
	uint32_t asked = asked_from(w, peer, piece);

	if (asked != SWARM_NONE)
		(void)begins(w, peer, asked);
}

static void on_got(struct world *w, unsigned int peer, uint32_t piece)
{
	uint32_t asked = asked_from(w, peer, piece);

	if (asked != SWARM_NONE && w->n_others[peer][asked]) {
		asked = begins(w, peer, asked);
	}

	if (asked == SWARM_NONE) {
		/* What was cancelled may come for all that. */
		if (!w->joined[peer] || piece % 4)
			return;
		asked = piece;
	}
	not_asked(w, peer, asked);
	w->demanded[asked] = 0;
	swarm_got(w->swarm, peer, asked, w->now);
	must(swarm_has(w->swarm, asked));
}

static void on_lost(struct world *w, unsigned int peer, uint32_t piece)
{
	uint32_t asked = asked_from(w, peer, piece);

	if (asked == SWARM_NONE)
		return;
	asked = begins(w, peer, asked);
	not_asked(w, peer, asked);
	w->has[peer][asked] = false;
	swarm_lost(w->swarm, peer, asked, piece & 1 ? -EBADMSG : -EIO, w->now);
}

static void on_refused(struct world *w, unsigned int peer, uint32_t piece)
{
	uint32_t asked = asked_from(w, peer, piece);
	enum swarm_refusal why = (enum swarm_refusal)(piece % 4);

	if (asked == SWARM_NONE)
		return;
	not_asked(w, peer, asked);
	if (why == SWARM_GONE)
		w->has[peer][asked] = false;
	if (why == SWARM_DENIED)
		memset(w->has[peer], 0, sizeof(w->has[peer]));
	swarm_refused(w->swarm, peer, asked, why, piece * MS, w->now);
}

static void on_origin(struct world *w, unsigned int peer, uint32_t piece)
{
	for (uint32_t i = 0; i < w->n_pieces; i++, piece++) {
		uint32_t p = piece % w->n_pieces;

		if (!w->reading[p])
			continue;
		w->reading[p] = false;
		if (peer == 0) {
			w->refused[p] = false;
			swarm_lost(w->swarm, SWARM_NONE, p, -EIO, w->now);
			return;
		}
		w->demanded[p] = 0;
		swarm_got(w->swarm, SWARM_NONE, p, w->now);
		return;
	}
}

static void on_leases(struct world *w, unsigned int peer, uint32_t piece)
{
	uint32_t granted[SWARM_LEASE_MAX];
	uint8_t mask = next(&w->script);
	struct swarm_grant g;
	struct call c;
	size_t n = 0;

	if (!w->n_calls)
		return;
	piece %= (uint32_t)w->n_calls;
	c = w->calls[piece];
	w->calls[piece] = w->calls[--w->n_calls];
	for (size_t i = 0; i < c.n; i++) {
		w->refused[c.pieces[i]] |= peer != 0;
		if (mask >> (i % 8) & 1) {
			granted[n++] = c.pieces[i];
			w->may_read[c.pieces[i]] = true;
		}
	}
	g = (struct swarm_grant){ .asked = c.pieces,
				  .n_asked = c.n,
				  .granted = granted,
				  .n_granted = n,
				  .is_full = peer == 0,
				  .ttl_ns = 1000 * MS,
				  .retry_ns = (peer + 1) * 10 * MS };
	swarm_leases(w->swarm, &g, w->now);
	memset(w->may_read, 0, sizeof(w->may_read));
}

static void on_tracker(struct world *w, unsigned int peer, uint32_t piece)
{
	uint64_t names[PEERS];

	for (unsigned int i = 0; i < PEERS; i++)
		names[i] = piece * 7919u + i;
	w->has_tracker = piece & 1;
	swarm_members(w->swarm, names, peer);
	swarm_tracker(w->swarm, piece & 1, w->now);
}

static void on_here(struct world *w, unsigned int peer, uint32_t piece)
{
	if (peer == 0) {
		swarm_drop(w->swarm, piece);
		must(!swarm_has(w->swarm, piece));
		return;
	}
	w->demanded[piece] = 0;
	swarm_have(w->swarm, piece, w->now);
	must(swarm_has(w->swarm, piece));
}

static void on_pause(struct world *w, unsigned int peer, uint32_t piece)
{
	swarm_pause(w->swarm, piece & 1, w->now);
}

static void check_news(const struct world *w, const struct swarm_range *r,
		       size_t n, bool is_here)
{
	must(n <= SWARM_NEWS_MAX);
	for (size_t i = 0; i < n; i++) {
		must(r[i].n > 0 && r[i].first + r[i].n <= w->n_pieces);
		must(i == 0 || r[i].first >= r[i - 1].first + r[i - 1].n);
		for (uint32_t j = 0; j < r[i].n; j++)
			must(swarm_has(w->swarm, r[i].first + j) == is_here);
	}
}

static void on_news(struct world *w, unsigned int peer, uint32_t piece)
{
	struct swarm_news news;

	(void)swarm_news(w->swarm, peer, &news);
	must(w->joined[peer] || !news.n_have);
	check_news(w, news.have, news.n_have, true);
	check_news(w, news.lost, news.n_lost, false);
	check_news(w, news.promised, news.n_promised, false);
}

static void tick(struct world *w, int64_t ns)
{
	w->now += ns;
	/* A tracker that does not answer is none. */
	for (size_t i = 0; i < w->n_calls; i++)
		if (w->now - w->calls[i].asked >= w->limits.lease_wait_ns)
			w->has_tracker = false;
	must(swarm_tick(w->swarm, w->now) > w->now);
}

static void on_time(struct world *w, unsigned int peer, uint32_t piece)
{
	tick(w, (1 + piece) * MS);
}

static void check(struct world *w)
{
	struct swarm_stats st;
	struct swarm_peer_stats p;

	swarm_get_stats(w->swarm, &st);
	must(st.flying_bytes <= w->limits.flying_max);
	for (unsigned int i = 0; i < PEERS; i++) {
		if (swarm_get_peer(w->swarm, i, &p))
			must(p.flying == w->peer_flying[i]);
		else
			must(!w->joined[i]);
		/* The links of those who are left are closed. */
		if (w->is_left[i])
			leave(w, i);
	}
	for (uint32_t i = 0; i < w->n_pieces; i++)
		must(!w->demanded[i] || w->now <= w->demanded[i] + 500 * MS);
}

static unsigned int n_asked(const struct world *w, unsigned int peer)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i < w->n_pieces; i++)
		n += w->asked[peer][i];
	return n;
}

static void play(struct world *w)
{
	static void (*const events[])(struct world *, unsigned int,
				      uint32_t) = {
		on_demand, on_want,    on_forget, on_peer,   on_has,
		on_has,    on_promise, on_got,    on_got,    on_got,
		on_lost,   on_refused, on_origin, on_leases, on_tracker,
		on_here,   on_pause,   on_news,   on_time,   on_peer_lost,
		on_begins,
	};

	while (w->script.len) {
		uint8_t event = next(&w->script);
		unsigned int peer = next(&w->script) % PEERS;
		uint32_t piece = next(&w->script) % w->n_pieces;

		events[event % ARRAY_SIZE(events)](w, peer, piece);
		check(w);
	}
	/* Whatever state this is: whoever waits is answered in time. */
	for (int i = 0; i < 60; i++)
		tick(w, 100 * MS);
	for (uint32_t i = 0; i < w->n_pieces; i++)
		must(!w->demanded[i]);
	/* And nobody is waited for who says nothing for two seconds, or eight times
	 * that where nobody else says anything either. */
	for (int i = 0; i < 180; i++)
		tick(w, 100 * MS);
	for (unsigned int i = 0; i < PEERS; i++)
		must(!n_asked(w, i) || w->now - w->peer_asked[i] <= 16200 * MS);
}

static uint64_t run(const uint8_t *data, size_t len)
{
	struct world w = { .script = { data, len },
			   .now = 1000,
			   .has_tracker = true,
			   .limits = swarm_limits_default };
	struct swarm_config cfg = { .host = &host, .arg = &w };

	w.n_pieces = 1 + next(&w.script) % PIECES_MAX;
	for (uint32_t i = 0; i < w.n_pieces; i++)
		w.sizes[i] = 1 + (i * 7919u) % 4096u;
	w.limits.flying_max = 4096 + 256u * next(&w.script);
	w.limits.flying_pieces = 1 + next(&w.script) % 8;
	w.limits.peer_min = 1024;
	w.limits.peer_max = 4096 + next(&w.script) * 64u;
	w.limits.origin_min = 4096;
	w.limits.window = next(&w.script) % 16;
	w.limits.lease_wait_ns = 400 * MS;
	cfg.n_pieces = w.n_pieces;
	cfg.sizes = w.sizes;
	cfg.limits = w.limits;
	cfg.seed = next(&w.script);
	if (swarm_new(&cfg, w.now, &w.swarm, NULL) < 0)
		return 0;
	play(&w);
	swarm_free(w.swarm);
	return w.actions;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	if (len > 4096)
		return 0;
	must(run(data, len) == run(data, len));
	return 0;
}
