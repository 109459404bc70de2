// SPDX-License-Identifier: Apache-2.0
/*
 * Random calls to a tracker beside a simple model of what it has given.  The first
 * byte says whether limits are wide (the model then knows who is there) or narrow.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/bytes.h"
#include "p2p/tracker/tracker.h"

#define NODES 12u
#define IMAGES 3u
#define PIECES 64u
#define MS ((int64_t)1000000)
#define WAITS_MAX 8u /* pieces that readers of a node are known to wait for */
#define LATE_MIN (500 * MS) /* until then a lease keeps others from the piece */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_at(bool ok, int line)
{
	if (ok)
		return;
	fprintf(stderr, "line %d does not hold\n", line);
	abort();
}
#define check(ok) check_at(ok, __LINE__)

struct held {
	int64_t since, ends; /* ends 0: none */
	/* The tracker may have it until then, when it was told shorter than it is. */
	int64_t until;
	uint32_t bytes;
};

/* Who read a piece, as far as the model can tell. */
struct read_by {
	unsigned int node; /* NODES: nobody */
	int64_t at;
	bool is_claim; /* it had no lease */
	bool is_open; /* somebody else, or nobody, may have it for the tracker */
	bool was_claimed, was_maybe_claimed;
};

/* A reader that asks for a piece, and does not get it. */
struct waiting {
	bool is_there;
	int64_t since, asked;
	/* Each time for what others do, and the tracker had room to know: since then.
	 * 0: not sure. */
	int64_t refused;
};

/* Whoever was given a piece last. */
struct last_held {
	unsigned int node; /* NODES: nobody, or not known */
	bool is_wasted;    /* for sure */
	int64_t awaited; /* another one's reader was refused; 0: not, or not sure */
};

/* What the model believes of one image. */
struct model {
	struct held held[NODES][PIECES];
	int64_t seen[NODES];      /* 0: no member */
	bool late[NODES];         /* let a lease run out, once */
	unsigned int read[NODES]; /* pieces, at most: some may be the same */
	uint64_t run[NODES], opening[NODES];
	struct read_by done[PIECES];
	struct waiting waiting[NODES][PIECES];
	struct last_held last[PIECES];
};

struct run {
	struct tracker_config cfg;
	struct tracker *t;
	int64_t now;
	bool is_wide;
	struct model images[IMAGES];
	struct tracker_answer answer;
	const uint8_t *data;
	size_t size;
};

static unsigned int next(struct run *r)
{
	if (r->size == 0)
		return 0;
	r->size--;
	return *r->data++;
}

static const char *zone_of(unsigned int node)
{
	static const char *const zones[] = { "a", "b", "" };

	return zones[node % 3];
}

static void read_by_none(struct read_by *d, bool is_open)
{
	d->node = NODES;
	d->is_open |= is_open;
}

/* It may be that the tracker counts fewer as read, and forgets nothing. */
static void model_forget(struct model *m, unsigned int node, bool is_sure)
{
	for (unsigned int p = 0; p < PIECES; p++)
		if (m->done[p].node == node)
			read_by_none(&m->done[p], !is_sure);
	m->read[node] = 0;
}

static void model_clear(struct model *m)
{
	for (unsigned int p = 0; p < PIECES; p++) {
		m->done[p] = (struct read_by){ .node = NODES };
		m->last[p] = (struct last_held){ .node = NODES };
	}
}

static void model_leave(struct model *m, unsigned int node)
{
	bool is_empty = true;

	memset(m->held[node], 0, sizeof(m->held[node]));
	memset(m->waiting[node], 0, sizeof(m->waiting[node]));
	m->seen[node] = 0;
	m->run[node] = 0;
	model_forget(m, node, true);
	for (unsigned int n = 0; n < NODES; n++)
		is_empty = is_empty && !m->seen[n];
	/* The image goes with its last member. */
	if (is_empty)
		model_clear(m);
}

static int64_t age_ms(const struct run *r, int64_t at)
{
	return r->now / MS - at / MS;
}

/* Whoever asked so long ago asks no more. */
static bool is_recent(const struct run *r, int64_t at)
{
	return age_ms(r, at) * MS <= 2 * r->cfg.interval_ns;
}

static bool has_waited(const struct run *r, const struct waiting *w)
{
	return w->is_there && is_recent(r, w->asked) &&
	       age_ms(r, w->since) * MS >= r->cfg.demand_done_ns;
}

/* A word without a lease.  Whether one who is slow counts is known for what all are
 * believed, and beyond what anybody is. */
static void model_claim(const struct run *r, struct model *m, unsigned int node,
			uint32_t piece)
{
	struct read_by *d = &m->done[piece];
	int64_t age = age_ms(r, d->at) * MS;

	if (d->is_open) {
		d->was_maybe_claimed = true;
		return;
	}
	if (d->node != NODES && age < r->cfg.demand_done_ns)
		return;
	if (d->node != NODES && !d->is_claim && age < r->cfg.done_ns) {
		if (m->late[d->node]) {
			read_by_none(d, true);
			d->was_maybe_claimed = true;
		}
		return;
	}
	if (d->was_claimed)
		return;
	if (d->was_maybe_claimed) {
		read_by_none(d, true);
		return;
	}
	*d = (struct read_by){ .node = node,
			       .at = r->now,
			       .is_claim = true,
			       .was_claimed = true };
}

static void model_done(const struct run *r, struct model *m, unsigned int node,
		       uint32_t piece)
{
	struct held *h = &m->held[node][piece];
	struct read_by *d = &m->done[piece];

	if (h->ends) {
		d->node = node;
		d->at = r->now;
		d->is_claim = d->is_open = false;
	} else if (h->until > r->now) {
		m->last[piece].is_wasted = false;
		read_by_none(d, true);
		d->was_maybe_claimed = true;
	} else {
		model_claim(r, m, node, piece);
	}
	h->ends = h->until = 0;
}

static void model_age(struct run *r)
{
	for (unsigned int i = 0; i < IMAGES; i++) {
		struct model *m = &r->images[i];

		for (unsigned int n = 0; n < NODES; n++) {
			for (unsigned int p = 0; p < PIECES; p++)
				if (m->held[n][p].ends &&
				    m->held[n][p].ends <= r->now) {
					m->held[n][p].ends = 0;
					m->late[n] = true;
					m->last[p].is_wasted |=
						m->last[p].node == n;
				}
			if (m->seen[n] &&
			    r->now - m->seen[n] > r->cfg.member_ttl_ns)
				model_leave(m, n);
		}
	}
}

static bool is_demand(const struct tracker_call *c, uint32_t piece)
{
	for (size_t i = 0; i < c->n_demand; i++)
		if (c->want[i] == piece)
			return true;
	return false;
}

/* Others with a reader come before who wasted the piece. */
static void check_last(const struct run *r, const struct model *m,
		       unsigned int node, uint32_t piece)
{
	const struct last_held *l = &m->last[piece];

	if (l->node == node && l->is_wasted && l->awaited &&
	    m->held[node][piece].until <= r->now)
		check(!is_recent(r, l->awaited));
}

/* It may be that the tracker has the lease still, and did not give it anew. */
static void model_give(const struct run *r, struct model *m, unsigned int node,
		       uint32_t piece, uint32_t bytes)
{
	struct held *h = &m->held[node][piece];
	struct last_held *l = &m->last[piece];

	if (h->until > r->now)
		*l = (struct last_held){ .node = NODES };
	else
		*l = (struct last_held){ .node = node,
					 .is_wasted = l->node == node };
	*h = (struct held){ .since = r->now,
			    .ends = r->now + r->answer.ttl_ns,
			    .until = r->now + r->cfg.lease_max_ns,
			    .bytes = bytes };
	m->waiting[node][piece].is_there = false;
}

/* Whether the tracker has room to know that this one waits, too. */
static bool knows_more(const struct run *r, const struct model *m,
		       unsigned int node)
{
	unsigned int n = 0;

	for (unsigned int p = 0; p < PIECES; p++)
		n += m->waiting[node][p].is_there &&
		     is_recent(r, m->waiting[node][p].asked);
	return n <= WAITS_MAX;
}

/* Demand that was not given. */
static void model_refuse(const struct run *r, struct model *m,
			 unsigned int node, uint32_t piece)
{
	struct waiting *w = &m->waiting[node][piece];
	struct last_held *l = &m->last[piece];
	bool is_taken = !r->answer.is_full;

	if (!w->is_there || !is_recent(r, w->asked))
		*w = (struct waiting){ .is_there = true, .since = r->now };
	w->asked = r->now;
	/* Not longer than that, whatever others do. */
	check(!is_taken || !w->refused ||
	      age_ms(r, w->refused) * MS < r->cfg.demand_done_ns);
	if (!is_taken || !knows_more(r, m, node))
		w->refused = 0;
	else if (!w->refused)
		w->refused = r->now;
	if (is_taken && l->node != NODES && l->node != node)
		l->awaited = r->now;
}

static bool is_granted(const struct tracker_answer *a, uint32_t piece)
{
	for (size_t i = 0; i < a->n_granted; i++)
		if (a->granted[i] == piece)
			return true;
	return false;
}

static void check_grant(const struct run *r, struct model *m, unsigned int node,
			const struct tracker_call *c, uint32_t piece,
			uint32_t bytes)
{
	struct held *h = &m->held[node][piece];
	unsigned int same_zone = 0;
	const struct read_by *d = &m->done[piece];
	unsigned int reader = d->is_open ? NODES : d->node;
	/* From one who is slow it is not awaited for long. */
	int64_t believed = is_demand(c, piece) || d->is_claim ||
					   (reader != NODES && m->late[reader])
				   ? r->cfg.demand_done_ns
				   : r->cfg.done_ns;

	if (h->ends) {
		/* The answer was lost; told shorter than it is, if anything. */
		if (r->now + r->answer.ttl_ns > h->ends)
			h->ends = r->now + r->answer.ttl_ns;
		check(h->ends - h->since <= r->cfg.lease_max_ns);
		return;
	}
	if (is_demand(c, piece) && has_waited(r, &m->waiting[node][piece])) {
		model_give(r, m, node, piece, bytes);
		return;
	}
	check_last(r, m, node, piece);
	for (unsigned int n = 0; n < NODES; n++)
		same_zone += n != node && m->held[n][piece].ends &&
			     r->now - m->held[n][piece].since <= LATE_MIN &&
			     strcmp(zone_of(n), zone_of(node)) == 0;
	check(same_zone < r->cfg.copies);
	if (reader != NODES && reader != node &&
	    !(d->is_claim && is_demand(c, piece)))
		check(age_ms(r, d->at) * MS >= believed);
	model_give(r, m, node, piece, bytes);
}

static void check_answer(struct run *r, struct model *m, unsigned int node,
			 const struct tracker_call *c)
{
	const struct tracker_answer *a = &r->answer;

	check(a->n_granted <= c->n_want);
	for (size_t i = 0; i < a->n_granted; i++) {
		uint32_t bytes = 0;

		for (size_t k = 0; k < i; k++)
			check(a->granted[k] != a->granted[i]);
		for (size_t k = 0; k < c->n_want; k++)
			if (c->want[k] == a->granted[i])
				bytes = c->want_bytes[k];
		check(bytes > 0 && a->ttl_ns > 0);
		if (!r->is_wide)
			continue;
		check_grant(r, m, node, c, a->granted[i], bytes);
	}
	for (size_t i = 0; i < c->n_demand && r->is_wide; i++)
		if (!is_granted(a, c->want[i]))
			model_refuse(r, m, node, c->want[i]);
	/* What all hold is more, where some are slow: see check_limits(). */
	for (unsigned int n = 0; n < NODES; n++) {
		uint64_t leased = 0;

		for (unsigned int p = 0; p < PIECES; p++)
			if (m->held[n][p].ends)
				leased += m->held[n][p].bytes;
		check(leased <= r->cfg.flying_max);
	}
	check(a->n_members <= TRACKER_MEMBERS_MAX && a->n_members <= a->swarm);
	for (size_t i = 0; i < a->n_members; i++) {
		check(strcmp(a->members[i].node, c->node) != 0);
		for (size_t k = 0; k < i; k++)
			check(strcmp(a->members[i].node, a->members[k].node) !=
			      0);
	}
}

static void check_limits(const struct run *r)
{
	struct tracker_stats s;

	tracker_get_stats(r->t, &s);
	check(s.images <= r->cfg.images_max);
	check(s.members <= r->cfg.members_max);
	check(s.memory <= r->cfg.memory_max);
	for (unsigned int i = 0; i < IMAGES; i++) {
		struct tracker_image_info info;
		struct digest d;

		memset(d.b, (int)i, sizeof(d.b));
		if (!tracker_get_image(r->t, &d, &info))
			continue;
		check(info.flying <= r->cfg.flying_max);
		check(info.window <= r->cfg.flying_max);
		check(info.complete <= info.members);
		check((info.leases == 0) == (info.flying == 0));
		check(info.done <= info.n_pieces);
	}
}

/* A list of pieces: mostly runs. */
static size_t pieces(struct run *r, uint32_t *ret, size_t max)
{
	size_t n = next(r) % (max + 1), step = next(r);
	uint32_t at = next(r) % PIECES;

	for (size_t i = 0; i < n; i++) {
		ret[i] = at;
		at = (at + (step > 200 ? next(r) : 1)) % PIECES;
	}
	return n;
}

/* As docs/formats/registry-api.md says. */
static bool is_past(const struct model *m, unsigned int node,
		    const struct tracker_call *c)
{
	if (!c->run || !m->run[node])
		return false;
	if (c->run != m->run[node])
		return c->leaving;
	return c->opening < m->opening[node];
}

static void one_call(struct run *r)
{
	unsigned int node = next(r) % NODES, image = next(r) % IMAGES;
	unsigned int flags = next(r);
	uint32_t want[80], bytes[80], done[16], failed[16];
	struct model *m = &r->images[image];
	char name[16];
	struct tracker_call c = { .node = name,
				  .addr = "192.0.2.1:7000",
				  .rack = node % 2 ? "r" : "",
				  .zone = zone_of(node),
				  .region = "",
				  .n_pieces = PIECES,
				  .have = next(r) % (PIECES + 1),
				  .leaving = (flags & 7) == 7,
				  .wants_members = flags & 8,
				  .want = want,
				  .want_bytes = bytes,
				  .done = done,
				  .failed = failed };
	bool past;

	r->now += (int64_t)next(r) * next(r) * MS / 8;
	memset(c.image.b, (int)image, sizeof(c.image.b));
	(void)snprintf(name, sizeof(name), "n%u", node);
	c.n_want = pieces(r, want, ARRAY_SIZE(want));
	for (size_t i = 0; i < c.n_want; i++)
		bytes[i] = 1 + want[i] * 37 % 256 * 32767;
	c.n_demand = c.n_want ? next(r) % (c.n_want + 1) : 0;
	if (flags & 32)
		c.n_done = pieces(r, done, ARRAY_SIZE(done));
	if (flags & 64)
		c.n_failed = pieces(r, failed, ARRAY_SIZE(failed));
	if (flags & 16) {
		c.run = 1 + next(r) % 2;
		c.opening = next(r) % 4;
	}
	if (flags & 128)
		c.origin_wait_ns = (int64_t)next(r) * 10 * MS;

	model_age(r);
	past = r->is_wide && is_past(m, node, &c);
	if (tracker_hear(r->t, &c, r->now, &r->answer, NULL) < 0) {
		check(!r->is_wide);
		return;
	}
	/* It has less than it read: it was started anew. */
	if (!past && !c.leaving && c.have < m->read[node])
		model_forget(m, node, false);
	m->read[node] += (unsigned int)c.n_done;
	/* Who is no member leaves without a word. */
	for (size_t i = 0; i < c.n_done && (m->seen[node] || !c.leaving); i++)
		model_done(r, m, node, done[i]);
	/* Who asks for what he read has lost it, if that is looked at. */
	for (size_t i = 0; i < c.n_want && !past; i++)
		if (m->done[want[i]].node == node)
			read_by_none(&m->done[want[i]], true);
	for (size_t i = 0; i < c.n_failed; i++)
		m->held[node][failed[i]].ends = m->held[node][failed[i]].until =
			0;
	if (past) {
		check(r->answer.n_granted == 0 && r->answer.n_members == 0);
		return;
	}
	if (c.leaving) {
		model_leave(m, node);
		return;
	}
	m->run[node] = c.run;
	m->opening[node] = c.opening;
	m->seen[node] = r->now;
	check_answer(r, m, node, &c);
	check_limits(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct run r; /* large */

	memset(&r, 0, sizeof(r));
	r.cfg = tracker_config_default;
	r.cfg.flying_max = 2 * TRACKER_PIECE_BYTES_MAX;
	r.now = 1;
	r.data = data;
	r.size = size;
	r.is_wide = next(&r) % 2 == 0;
	r.cfg.copies = 1 + next(&r) % 2;
	r.cfg.seed = next(&r);
	/* Tables are as large as these. */
	r.cfg.images_max = IMAGES;
	r.cfg.members_max = NODES * IMAGES;
	if (!r.is_wide) {
		r.cfg.images_max = 2;
		r.cfg.members_max = 7;
		r.cfg.memory_max = 8192;
	}
	for (unsigned int i = 0; i < IMAGES; i++)
		model_clear(&r.images[i]);
	if (tracker_new(&r.cfg, &r.t, NULL) < 0)
		return 0;
	while (r.size > 0)
		one_call(&r);
	tracker_free(r.t);
	return 0;
}
