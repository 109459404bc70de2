// SPDX-License-Identifier: Apache-2.0
/*
 * Random calls to a tracker beside a simple model of what it has given.  The first
 * byte says whether limits are wide (the model then knows who is there) or narrow.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/bytes.h"
#include "p2p/tracker.h"

#define NODES 12u
#define IMAGES 3u
#define PIECES 64u
#define MS ((int64_t)1000000)
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
	uint32_t bytes;
};

/* What the model believes of one image. */
struct model {
	struct held held[NODES][PIECES];
	int64_t seen[NODES];      /* 0: no member */
	bool late[NODES];         /* let a lease run out, once */
	unsigned int read[NODES]; /* pieces, at most: some may be the same */
	uint64_t run[NODES], opening[NODES];
	struct {
		unsigned int node; /* NODES: nobody */
		int64_t at;
	} done[PIECES];
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

static void model_forget(struct model *m, unsigned int node)
{
	for (unsigned int p = 0; p < PIECES; p++)
		if (m->done[p].node == node)
			m->done[p].node = NODES;
	m->read[node] = 0;
}

static void model_leave(struct model *m, unsigned int node)
{
	memset(m->held[node], 0, sizeof(m->held[node]));
	m->seen[node] = 0;
	m->run[node] = 0;
	model_forget(m, node);
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

static void check_grant(const struct run *r, struct model *m, unsigned int node,
			const struct tracker_call *c, uint32_t piece,
			uint32_t bytes)
{
	struct held *h = &m->held[node][piece];
	unsigned int same_zone = 0;
	unsigned int reader = m->done[piece].node;
	/* From one who is slow it is not awaited for long. */
	int64_t believed =
		is_demand(c, piece) || (reader != NODES && m->late[reader])
			? r->cfg.demand_done_ns
			: r->cfg.done_ns;

	if (h->ends) {
		/* The answer was lost; told shorter than it is, if anything. */
		if (r->now + r->answer.ttl_ns > h->ends)
			h->ends = r->now + r->answer.ttl_ns;
		check(h->ends - h->since <= r->cfg.lease_max_ns);
		return;
	}
	for (unsigned int n = 0; n < NODES; n++)
		same_zone += n != node && m->held[n][piece].ends &&
			     r->now - m->held[n][piece].since <= LATE_MIN &&
			     strcmp(zone_of(n), zone_of(node)) == 0;
	check(same_zone < r->cfg.copies);
	if (reader != NODES && reader != node)
		check(r->now - m->done[piece].at >= believed - MS);
	m->done[piece].node = NODES;
	*h = (struct held){ .since = r->now,
			    .ends = r->now + r->answer.ttl_ns,
			    .bytes = bytes };
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

/* As docs/registry-api.md says. */
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
		model_forget(m, node);
	m->read[node] += (unsigned int)c.n_done;
	for (size_t i = 0; i < c.n_done; i++) {
		m->held[node][done[i]].ends = 0;
		m->done[done[i]].node = node;
		m->done[done[i]].at = r->now;
	}
	/* Who asks for what he read has lost it. */
	for (size_t i = 0; i < c.n_want && !past; i++)
		if (m->done[want[i]].node == node)
			m->done[want[i]].node = NODES;
	for (size_t i = 0; i < c.n_failed; i++)
		m->held[node][failed[i]].ends = 0;
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
		for (unsigned int p = 0; p < PIECES; p++)
			r.images[i].done[p].node = NODES;
	if (tracker_new(&r.cfg, &r.t, NULL) < 0)
		return 0;
	while (r.size > 0)
		one_call(&r);
	tracker_free(r.t);
	return 0;
}
