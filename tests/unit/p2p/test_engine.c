// SPDX-License-Identifier: Apache-2.0
/* Whole nodes in one process: engine, core, links, cache, origin. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "common/bytes.h"
#include "common/loop.h"
#include "p2p/engine_peer.h"
#include "tests/unit/p2p/crowd.h"
#include "tests/unit/p2p/fake_tracker.h"
#include "tests/unit/p2p/rogue.h"

TestSuite(engine, .timeout = 120);

#define BLOCKS 60
static const struct crowd_config two = {
	.nodes = 2,
	.blocks = BLOCKS,
	.per_pack = 25,
	.usize = 64 << 10,
	.relay = 64 << 20,
};

/* --------------------------------------------------------- one from another --- */

Test(engine, a_node_gets_everything_from_another)
{
	struct crowd c;

	crowd_make(&c, &two);
	crowd_fetch(&c.node[0]);
	cr_assert_eq(crowd_join(&c.node[0]), 0, "%s", c.node[0].err.msg);
	crowd_expect_whole(&c.node[0]);
	cr_expect_eq(c.node[0].n_have, BLOCKS);
	cr_expect_eq(c.node[0].n_bytes, crowd_stored_bytes(&c));
	cr_expect_eq(crowd_origin_bytes(&c), crowd_stored_bytes(&c));
	crowd_wait_peers(&c.node[1], 1);
	crowd_origin_dies(&c.node[1]);
	crowd_fetch(&c.node[1]);
	cr_assert_eq(crowd_join(&c.node[1]), 0, "%s", c.node[1].err.msg);
	crowd_expect_whole(&c.node[1]);
	cr_expect_eq(c.node[1].n_have, BLOCKS);
	cr_expect_eq(crowd_origin_bytes(&c), crowd_stored_bytes(&c));
	crowd_remove(&c);
}

/* A crowd of `n` that all begin at once. */
static void fetch_all(struct crowd *c)
{
	for (unsigned int k = 0; k < c->n; k++)
		crowd_fetch(&c->node[k]);
	for (unsigned int k = 0; k < c->n; k++)
		cr_assert_eq(crowd_join(&c->node[k]), 0, "node %u: %s", k,
			     c->node[k].err.msg);
	for (unsigned int k = 0; k < c->n; k++)
		crowd_expect_whole(&c->node[k]);
}

static double copies(struct crowd *c)
{
	return (double)crowd_origin_bytes(c) / (double)crowd_stored_bytes(c);
}

static void stats_of(const struct crowd_node *n, struct p2p_stats *ret)
{
	p2p_get_stats(n->p2p, ret);
}

Test(engine, a_crowd_reads_the_origin_about_once)
{
	static const struct crowd_config eight = {
		.nodes = 8,
		.blocks = 160,
		.per_pack = 60,
		.usize = 64 << 10,
		.relay = 64 << 20,
	};
	struct p2p_stats s;
	struct crowd c;

	crowd_make(&c, &eight);
	for (unsigned int k = 0; k < c.n; k++)
		crowd_wait_peers(&c.node[k], 7);
	fetch_all(&c);
	for (unsigned int k = 0; k < c.n; k++) {
		stats_of(&c.node[k], &s);
		cr_expect_eq(s.wrong_total, 0);
	}
	/* Without a tracker turns are taken by time, and this machine may
	 * be slow. */
	cr_expect_lt(copies(&c), 6.0, "%.2f", copies(&c));
	crowd_remove(&c);
}

/* ------------------------------------------------------------------ the tracker --- */

static const struct crowd_config tracked = {
	.nodes = 8,
	.blocks = 160,
	.per_pack = 60,
	.usize = 64 << 10,
	.relay = 64 << 20,
	.alone = true, /* but for the tracker */
};

Test(engine, with_a_tracker_a_crowd_reads_one_copy)
{
	struct crowd_config cfg = tracked;
	struct fake_tracker *tracker;
	struct p2p_stats s;
	struct digest image;
	struct crowd c;

	cr_assert_eq(digest_of("crowd", 5, &image), 0);
	tracker = fake_tracker_start(&image);
	cfg.tracker = fake_tracker_url(tracker);
	crowd_make(&c, &cfg);
	fetch_all(&c);
	stats_of(&c.node[3], &s);
	cr_expect_eq(s.tracker_is_there, 1);
	cr_expect_gt(s.tracker_calls_total, 0);
	cr_expect_gt(s.leases_total, 0);
	/* A lease that ran out on a busy machine may be given once more. */
	cr_expect_lt(copies(&c), 1.5, "%.2f", copies(&c));
	crowd_remove(&c);
	fake_tracker_free(tracker);
}

Test(engine, a_tracker_that_dies_stops_nobody)
{
	struct crowd_config cfg = tracked;
	struct fake_tracker *tracker;
	struct p2p_stats s;
	struct digest image;
	struct crowd c;

	cr_assert_eq(digest_of("crowd", 5, &image), 0);
	tracker = fake_tracker_start(&image);
	cfg.tracker = fake_tracker_url(tracker);
	crowd_make(&c, &cfg);
	for (unsigned int k = 0; k < c.n; k++)
		crowd_wait_peers(&c.node[k], 2);
	for (unsigned int k = 0; k < c.n; k++)
		crowd_fetch(&c.node[k]);
	crowd_wait_have(&c.node[0], 1);
	fake_tracker_kill(tracker);
	for (unsigned int k = 0; k < c.n; k++) {
		cr_assert_eq(crowd_join(&c.node[k]), 0, "node %u: %s", k,
			     c.node[k].err.msg);
		crowd_expect_whole(&c.node[k]);
	}
	/* One who comes now knows nobody, and has the origin. */
	crowd_fetch(crowd_add(&c, &cfg));
	cr_assert_eq(crowd_join(&c.node[8]), 0, "%s", c.node[8].err.msg);
	stats_of(&c.node[8], &s);
	cr_expect_eq(s.tracker_is_there, 0);
	cr_expect_gt(s.tracker_failures_total, 0);
	/* One who knows somebody needs neither. */
	cfg.alone = false;
	(void)crowd_add(&c, &cfg);
	crowd_wait_peers(&c.node[9], 1);
	crowd_origin_dies(&c.node[9]);
	crowd_fetch(&c.node[9]);
	cr_assert_eq(crowd_join(&c.node[9]), 0, "%s", c.node[9].err.msg);
	crowd_expect_whole(&c.node[9]);
	crowd_remove(&c);
	fake_tracker_free(tracker);
}

/* ----------------------------------------------------------------------- rights --- */

/* On the loop of a node: who takes part in its image, and until when he may. */
struct holders {
	struct p2p *p;
	int64_t check_s; /* look who may at this time first; 0: not */
	unsigned int n;
	int64_t until;
};

static void count_holders(void *arg)
{
	struct holders *h = arg;
	const struct neighbour *nb;
	const struct right *r;
	struct link *l;

	if (h->check_s)
		rights_check(h->p, h->check_s);
	h->n = 0;
	LIST_FOREACH(l, &h->p->links, all)
	{
		LIST_FOREACH(nb, &l->neighbours, by_link)
		h->n++;
		LIST_FOREACH(r, &l->rights, by_link)
		h->until = r->until;
	}
}

/* Until `n` others take part and, of one, the right lasts longer than `until`. */
static void wait_holders(struct crowd_node *node, unsigned int n, int64_t until)
{
	int64_t end = loop_clock_ns() + 60 * NS_PER_S;
	struct holders h = { .p = node->p2p };

	do {
		cr_assert_lt(loop_clock_ns(), end, "node %u: %u take part",
			     node->number, h.n);
		engine_run(h.p, count_holders, &h);
	} while (h.n != n || h.until <= until);
}

/* Two nodes that meet by the tracker, the first with the image. */
static struct fake_tracker *permitted(struct crowd *c, unsigned int life_s)
{
	struct crowd_config cfg = two;
	struct fake_tracker *t;
	struct digest image;

	cr_assert_eq(digest_of("crowd", 5, &image), 0);
	t = fake_tracker_start(&image);
	fake_tracker_sign(t, life_s);
	cfg.tracker = fake_tracker_url(t);
	cfg.keys = fake_tracker_pem;
	crowd_make(c, &cfg);
	crowd_put(&c->node[0], 0, BLOCKS);
	crowd_reopen(&c->node[0]);
	wait_holders(&c->node[0], 1, 0);
	wait_holders(&c->node[1], 1, 0);
	return t;
}

Test(engine, who_has_a_right_is_served_until_it_is_over)
{
	struct fake_tracker *t;
	struct p2p_stats s;
	struct holders h;
	struct crowd c;

	t = permitted(&c, 3600);
	crowd_fetch(&c.node[1]);
	cr_assert_eq(crowd_join(&c.node[1]), 0, "%s", c.node[1].err.msg);
	cr_expect_eq(crowd_origin_bytes(&c), 0);
	h = (struct holders){ .p = c.node[0].p2p, .check_s = time(NULL) + 60 };
	engine_run(h.p, count_holders, &h);
	cr_expect_eq(h.n, 1, "it is good for an hour");
	h.check_s = time(NULL) + 3601;
	engine_run(h.p, count_holders, &h);
	cr_expect_eq(h.n, 0);
	/* The other side hears of it. */
	wait_holders(&c.node[1], 0, 0);
	stats_of(&c.node[0], &s);
	cr_expect_eq(s.denied_total, 1);
	crowd_remove(&c);
	fake_tracker_free(t);
}

Test(engine, a_right_is_renewed_while_the_link_serves)
{
	int64_t until = time(NULL) + 5;
	struct fake_tracker *t;
	struct p2p_stats s;
	struct crowd c;

	/* It is renewed a second before. */
	t = permitted(&c, 4);
	wait_holders(&c.node[0], 1, until + 1);
	stats_of(&c.node[0], &s);
	cr_expect_eq(s.denied_total, 0);
	/* Nobody gives one any more: it ends. */
	fake_tracker_sign(t, 0);
	{
		int64_t end = loop_clock_ns() + 60 * NS_PER_S;
		struct holders h = { .p = c.node[0].p2p };

		do {
			cr_assert_lt(loop_clock_ns(), end);
			h.check_s = time(NULL);
			engine_run(h.p, count_holders, &h);
		} while (h.n);
	}
	crowd_origin_dies(&c.node[0]);
	crowd_fetch(&c.node[1]);
	cr_assert_eq(crowd_join(&c.node[1]), 0, "%s", c.node[1].err.msg);
	cr_expect_eq(crowd_origin_bytes(&c), crowd_stored_bytes(&c));
	crowd_remove(&c);
	fake_tracker_free(t);
}

Test(engine, whose_right_is_revoked_is_served_no_more)
{
	struct fake_tracker *t;
	struct crowd c;

	t = permitted(&c, 3600);
	fake_tracker_revoke(t, "node-01");
	cr_expect_eq(p2p_reload(c.node[0].p2p, NULL), 0);
	wait_holders(&c.node[0], 0, 0);
	/* Also when it comes anew. */
	crowd_reopen(&c.node[1]);
	crowd_fetch(&c.node[1]);
	cr_assert_eq(crowd_join(&c.node[1]), 0, "%s", c.node[1].err.msg);
	cr_expect_eq(crowd_origin_bytes(&c), crowd_stored_bytes(&c));
	crowd_remove(&c);
	fake_tracker_free(t);
}

/* ------------------------------------------------------------- what else may be --- */

Test(engine, what_left_the_relay_comes_from_the_cache)
{
	struct crowd_config cfg = two;
	struct crowd c;

	cfg.relay = 0;
	crowd_make(&c, &cfg);
	crowd_put(&c.node[0], 0, BLOCKS);
	/* What came by another way is told when the image is opened anew. */
	crowd_reopen(&c.node[0]);
	crowd_wait_peers(&c.node[1], 1);
	crowd_origin_dies(&c.node[1]);
	crowd_fetch(&c.node[1]);
	cr_assert_eq(crowd_join(&c.node[1]), 0, "%s", c.node[1].err.msg);
	crowd_expect_whole(&c.node[1]);
	cr_expect_eq(crowd_origin_bytes(&c), 0);
	crowd_remove(&c);
}

Test(engine, a_node_alone_reads_the_origin)
{
	struct crowd_config cfg = two;
	struct crowd c;

	cfg.nodes = 1;
	cfg.alone = true;
	crowd_make(&c, &cfg);
	fetch_all(&c);
	cr_expect_eq(crowd_origin_bytes(&c), crowd_stored_bytes(&c));
	crowd_remove(&c);
}

Test(engine, without_peers_everybody_reads_the_origin)
{
	struct crowd_config cfg = two;
	struct crowd c;

	cfg.nodes = 3;
	cfg.alone = true;
	crowd_make(&c, &cfg);
	fetch_all(&c);
	cr_expect_eq(crowd_origin_bytes(&c), 3 * crowd_stored_bytes(&c));
	crowd_remove(&c);
}

/* --------------------------------------------------------------- those who fail --- */

/* Three nodes, of which the first has half, and one that does no good. */
static void fetch_beside(enum rogue_kind kind, struct p2p_stats *ret)
{
	struct crowd_config cfg = two;
	struct rogue *rogue;
	struct crowd c;

	cfg.nodes = 0;
	crowd_make(&c, &cfg);
	rogue = rogue_start(kind, &c.img, &c.digest);
	cfg.address = rogue_address(rogue);
	for (int k = 0; k < 3; k++)
		(void)crowd_add(&c, &cfg);
	crowd_wait_peers(&c.node[1], 2);
	crowd_wait_peers(&c.node[2], 2);
	fetch_all(&c);
	cr_expect_gt(rogue_asked(rogue), 0);
	memset(ret, 0, sizeof(*ret));
	for (unsigned int k = 0; k < c.n; k++) {
		struct p2p_stats s;

		stats_of(&c.node[k], &s);
		ret->wrong_total += s.wrong_total;
		ret->strikes_total += s.strikes_total;
		ret->stalls_total += s.stalls_total;
	}
	rogue_stop(rogue); /* it looks into the crowd's image */
	crowd_remove(&c);
}

Test(engine, a_peer_that_lies_is_found_and_left)
{
	struct p2p_stats s;

	fetch_beside(ROGUE_LIES, &s);
	cr_expect_gt(s.wrong_total, 0);
	cr_expect_geq(s.strikes_total, 3);
	/* Then it is left: it cannot go on. */
	cr_expect_lt(s.wrong_total, 3 * BLOCKS / 2);
}

Test(engine, a_peer_that_stalls_is_found_and_left)
{
	struct p2p_stats s;

	fetch_beside(ROGUE_STALLS, &s);
	cr_expect_eq(s.wrong_total, 0);
	cr_expect_gt(s.stalls_total, 0);
}

Test(engine, a_peer_that_has_nothing_after_all_is_passed_over)
{
	struct p2p_stats s;

	fetch_beside(ROGUE_GONE, &s);
	cr_expect_eq(s.strikes_total, 0);
}

/* The only one who has it goes away in the middle. */
static void fetch_from_who_leaves(enum source_priority priority)
{
	struct crowd_config cfg = two;
	struct crowd c;

	cfg.upload_rate = MIB;
	crowd_make(&c, &cfg);
	crowd_put(&c.node[0], 0, BLOCKS);
	crowd_reopen(&c.node[0]);
	crowd_wait_peers(&c.node[1], 1);
	c.node[1].priority = priority;
	crowd_fetch(&c.node[1]);
	crowd_wait_have(&c.node[1], 1);
	crowd_kill(&c.node[0]);
	cr_assert_eq(crowd_join(&c.node[1]), 0, "%s", c.node[1].err.msg);
	crowd_expect_whole(&c.node[1]);
	crowd_remove(&c);
}

/* Nobody pins it any more while it is on its way, and its place is given away. */
Test(engine, what_is_being_sent_is_not_evicted)
{
	struct error err = ERROR_INIT;
	struct crowd_config cfg = two;
	struct p2p_stats s;
	struct crowd c;
	uint64_t freed;

	cfg.relay = 0;
	cfg.usize = MIB;
	cfg.blocks = 16;
	cfg.upload_rate = 4 * MIB;
	crowd_make(&c, &cfg);
	crowd_put(&c.node[0], 0, cfg.blocks);
	cr_assert_eq(cache_pin(c.node[0].cache, &c.img.map, &err), 0);
	crowd_reopen(&c.node[0]);
	crowd_wait_peers(&c.node[1], 1);
	crowd_fetch(&c.node[1]);
	crowd_wait_have(&c.node[1], 1);
	cache_unpin(c.node[0].cache, &c.img.map);
	cr_assert_eq(cache_gc(c.node[0].cache, 0, &freed, &err), 0);
	cr_expect_gt(freed, 0);
	cr_assert_eq(crowd_join(&c.node[1]), 0, "%s", c.node[1].err.msg);
	crowd_expect_whole(&c.node[1]);
	stats_of(&c.node[1], &s);
	cr_expect_eq(s.wrong_total, 0);
	crowd_remove(&c);
}

struct takers {
	struct p2p *p;
	int64_t later;
	unsigned int n, up;
};

/* Links with answers under way, and those of them that are kept. */
static void check_takers(void *arg)
{
	struct takers *t = arg;
	struct net_link_stats st;
	struct link *l;

	t->n = t->up = 0;
	serve_check(t->p, loop_clock_ns() + t->later);
	LIST_FOREACH(l, &t->p->links, all)
	{
		net_get_link(l->net, &st);
		t->n += !LIST_EMPTY(&l->uploads);
		t->up += st.is_up && !LIST_EMPTY(&l->uploads);
	}
}

Test(engine, who_takes_a_piece_for_ever_is_left)
{
	struct crowd_config cfg = two;
	struct takers t;
	struct crowd c;

	cfg.usize = MIB;
	cfg.blocks = 16;
	cfg.upload_rate = 4 * MIB;
	crowd_make(&c, &cfg);
	crowd_put(&c.node[0], 0, cfg.blocks);
	crowd_reopen(&c.node[0]);
	crowd_wait_peers(&c.node[1], 1);
	crowd_fetch(&c.node[1]);
	crowd_wait_have(&c.node[1], 1);
	t = (struct takers){ .p = c.node[0].p2p };
	engine_run(t.p, check_takers, &t);
	cr_expect_eq(t.n, 1);
	cr_expect_eq(t.up, 1);
	t.later = 600 * NS_PER_S;
	engine_run(t.p, check_takers, &t);
	cr_expect_eq(t.n, 1);
	cr_expect_eq(t.up, 0);
	cr_assert_eq(crowd_join(&c.node[1]), 0, "%s", c.node[1].err.msg);
	crowd_expect_whole(&c.node[1]);
	crowd_remove(&c);
}

Test(engine, an_image_is_closed_though_somebody_takes_of_it_slowly)
{
	struct crowd_config cfg = two;
	int64_t began = loop_clock_ns();
	struct takers t;
	struct crowd c;

	cfg.usize = 2 * MIB;
	cfg.blocks = 16;
	cfg.upload_rate = 64 * KIB;
	crowd_make(&c, &cfg);
	crowd_put(&c.node[0], 0, cfg.blocks);
	crowd_reopen(&c.node[0]);
	crowd_wait_peers(&c.node[1], 1);
	crowd_fetch(&c.node[1]);
	t = (struct takers){ .p = c.node[0].p2p };
	while (!t.n && loop_clock_ns() < began + 30 * NS_PER_S)
		engine_run(t.p, check_takers, &t);
	cr_assert_eq(t.n, 1);
	began = loop_clock_ns();
	crowd_reopen(&c.node[0]);
	/* A piece takes half a minute. */
	cr_expect_lt(loop_clock_ns() - began, 5 * NS_PER_S, "%lld ms",
		     (long long)((loop_clock_ns() - began) / NS_PER_MS));
	cr_assert_eq(crowd_join(&c.node[1]), 0, "%s", c.node[1].err.msg);
	crowd_remove(&c);
}

/* On the loop of a node that is linked to another one. */
static void check_members(void *arg)
{
	struct p2p *p = arg;
	struct p2p_image *i = LIST_FIRST(&p->images);
	struct net_node lie = LIST_FIRST(&p->links)->member->node, other;
	struct member *m = member_by_name(p, lie.name);

	(void)strcpy(lie.addr, "192.0.2.1:1");
	cr_expect_eq(member_know(p, &lie, true), m);
	cr_expect(strcmp(m->node.addr, lie.addr) != 0, "one who is reached");
	other = (struct net_node){ .addr = "192.0.2.1:2" };
	for (unsigned int k = 0; i->n_known < KNOWN_MAX; k++) {
		(void)snprintf(other.name, sizeof(other.name), "invented-%u",
			       k);
		m = member_know(p, &other, true);
		cr_assert(m);
		member_takes_part(m, i);
	}
	(void)strcpy(other.name, "real");
	member_takes_part(member_know(p, &other, false), i);
	cr_expect_eq(member_by_name(p, "real")->refs, 0, "all may be there");
	member_failed(m, loop_clock_ns());
	member_takes_part(member_by_name(p, "real"), i);
	cr_expect_eq(member_by_name(p, "real")->refs, 1);
	cr_expect_eq(m->refs, 0);
	cr_expect_eq(i->n_known, KNOWN_MAX);
	/* Nobody lives there. */
	(void)member_know(p,
			  &(struct net_node){ .name = "invented-0",
					      .addr = "192.0.2.1:3" },
			  true);
	cr_expect_str_eq(member_by_name(p, "invented-0")->node.addr,
			 "192.0.2.1:2");
}

Test(engine, who_tells_of_others_cannot_change_what_is_known)
{
	struct crowd c;

	crowd_make(&c, &two);
	crowd_wait_peers(&c.node[1], 1);
	engine_run(c.node[1].p2p, check_members, c.node[1].p2p);
	crowd_remove(&c);
}

Test(engine, who_loses_his_only_peer_goes_on)
{
	fetch_from_who_leaves(SOURCE_HOT);
	fetch_from_who_leaves(SOURCE_COLD);
}

Test(engine, a_peer_that_is_always_busy_is_passed_over)
{
	struct p2p_stats s;

	fetch_beside(ROGUE_BUSY, &s);
	cr_expect_eq(s.strikes_total, 0);
}

Test(engine, what_the_swarm_holds_needs_no_origin)
{
	struct crowd_config cfg = two;
	struct crowd c;

	/* Each has a third, and all origins are dead. */
	cfg.nodes = 3;
	crowd_make(&c, &cfg);
	for (unsigned int k = 0; k < 3; k++) {
		crowd_put(&c.node[k], k * BLOCKS / 3, BLOCKS / 3);
		crowd_reopen(&c.node[k]);
		crowd_origin_dies(&c.node[k]);
	}
	for (unsigned int k = 0; k < 3; k++)
		crowd_wait_peers(&c.node[k], 2);
	fetch_all(&c);
	cr_expect_eq(crowd_origin_bytes(&c), 0);
	crowd_remove(&c);
}

static int read_block(struct crowd_node *n, struct device *dev, size_t k,
		      struct error *err)
{
	const struct image *img = &n->crowd->img;
	AUTO_FREE uint8_t *got = NULL;
	struct block b;
	int rc;

	blockmap_block(&img->map, k, &b);
	got = malloc(b.usize);
	cr_assert(got);
	rc = device_read_sync(dev, b.voff, got, b.usize, err);
	if (rc == 0)
		cr_assert_eq(memcmp(got, image_plain(img, k), b.usize), 0);
	return rc;
}

Test(engine, readers_get_blocks_from_peers)
{
	struct error err = ERROR_INIT;
	struct fetcher *fetcher;
	struct device *dev;
	struct crowd c;

	crowd_make(&c, &two);
	crowd_put(&c.node[0], 0, BLOCKS);
	crowd_reopen(&c.node[0]);
	crowd_wait_peers(&c.node[1], 1);
	crowd_origin_dies(&c.node[1]);
	dev = crowd_device(&c.node[1], &fetcher);
	for (size_t k = BLOCKS; k-- > 0;)
		cr_assert_eq(read_block(&c.node[1], dev, k, &err), 0, "%s",
			     err.msg);
	cr_expect_eq(crowd_origin_bytes(&c), 0);
	device_free(dev);
	fetcher_free(fetcher);
	crowd_remove(&c);
}

/* Takes blocks, and empties the cache when it has the first one. */
struct emptying {
	struct source_sink sink;
	struct crowd_node *node;
	unsigned int n;
};

static int take_and_empty(struct source_sink *sink, uint64_t pos,
			  const void *data, size_t len, struct error *err)
{
	struct emptying *e = container_of(sink, struct emptying, sink);
	uint64_t freed;

	cr_expect_eq(memcmp(data, image_plain(&e->node->crowd->img, pos), len),
		     0);
	return e->n++ ? 0 : cache_gc(e->node->cache, 0, &freed, err);
}

Test(engine, what_the_cache_loses_under_a_reader_is_brought_again)
{
	struct block blocks[8];
	struct source_req req = { .blocks = blocks,
				  .n_blocks = ARRAY_SIZE(blocks),
				  .priority = SOURCE_DEMAND };
	struct crowd_config cfg = two;
	struct emptying e = { .sink.put = take_and_empty };
	struct error err = ERROR_INIT;
	struct source *pack;
	struct crowd c;

	cfg.nodes = 1;
	cfg.alone = true;
	crowd_make(&c, &cfg);
	e.node = &c.node[0];
	crowd_put(e.node, 0, BLOCKS);
	crowd_reopen(e.node);
	for (size_t k = 0; k < ARRAY_SIZE(blocks); k++) {
		blockmap_block(&c.img.map, k, &blocks[k]);
		req.len += blocks[k].csize;
	}
	req.off = blocks[0].poff;
	cr_assert_eq(p2p_image_source(e.node->image, 0, &pack, &err), 0);
	/* All are answered from the cache, and all but one are gone then. */
	cr_expect_eq(source_read(pack, &req, &e.sink, &err), 0, "%s", err.msg);
	cr_expect_eq(e.n, ARRAY_SIZE(blocks));
	cr_expect_eq(crowd_origin_bytes(&c), req.len - blocks[0].csize);
	source_free(pack);
	crowd_remove(&c);
}

/* On the loop of a node: members by name, as many as there may be. */
static void check_names(void *arg)
{
	struct p2p *p = arg;
	struct net_node n = { .addr = "192.0.2.1:1" };

	for (unsigned int k = 0; k < 2 * MEMBERS_MAX; k++) {
		(void)snprintf(n.name, sizeof(n.name), "member-%u", k);
		cr_assert(member_know(p, &n, false));
	}
	cr_expect_eq(p->n_members, MEMBERS_MAX);
	cr_expect_null(member_by_name(p, "member-0"), "the oldest leave");
	for (unsigned int k = MEMBERS_MAX; k < 2 * MEMBERS_MAX; k++) {
		(void)snprintf(n.name, sizeof(n.name), "member-%u", k);
		cr_assert_str_eq(member_by_name(p, n.name)->node.name, n.name);
	}
}

Test(engine, members_are_found_by_name_also_when_others_left)
{
	struct crowd_config cfg = two;
	struct crowd c;

	cfg.nodes = 1;
	crowd_make(&c, &cfg);
	engine_run(c.node[0].p2p, check_names, c.node[0].p2p);
	crowd_remove(&c);
}

Test(engine, a_reader_does_not_wait_behind_bulk)
{
	struct crowd_config cfg = two;
	struct error err = ERROR_INIT;
	struct fetcher *fetcher;
	struct device *dev;
	struct crowd c;

	cfg.upload_rate = MIB; /* of some three that are wanted */
	crowd_make(&c, &cfg);
	crowd_put(&c.node[0], 0, BLOCKS);
	crowd_reopen(&c.node[0]);
	crowd_wait_peers(&c.node[1], 1);
	crowd_origin_dies(&c.node[1]);
	dev = crowd_device(&c.node[1], &fetcher);
	crowd_fetch(&c.node[1]);
	crowd_wait_have(&c.node[1], 1);
	for (size_t k = BLOCKS - 3; k < BLOCKS; k++)
		cr_assert_eq(read_block(&c.node[1], dev, k, &err), 0, "%s",
			     err.msg);
	cr_expect_lt(atomic_load(&c.node[1].n_have), BLOCKS * 3 / 4);
	cr_assert_eq(crowd_join(&c.node[1]), 0, "%s", c.node[1].err.msg);
	crowd_expect_whole(&c.node[1]);
	device_free(dev);
	fetcher_free(fetcher);
	crowd_remove(&c);
}

/* --------------------------------------------------------- the list's contract --- */

static void hold_origin(struct crowd_node *n)
{
	struct fault_plan plan = { .held = true, .heeds_pace = true };

	for (size_t k = 0; k < n->crowd->img.n_packs; k++)
		fault_set(n->origin[k], &plan);
}

Test(engine, a_list_is_cancelled_soon)
{
	struct crowd_config cfg = two;
	struct crowd c;
	int64_t began;

	cfg.nodes = 1;
	cfg.per_pack = BLOCKS;
	crowd_make(&c, &cfg);
	hold_origin(&c.node[0]);
	crowd_fetch(&c.node[0]);
	fault_wait_held(c.node[0].origin[0], 1);
	began = loop_clock_ns();
	__atomic_store_n(&c.node[0].cancel, true, __ATOMIC_RELAXED);
	cr_expect_eq(crowd_join(&c.node[0]), -ECANCELED);
	/* 100 ms, on a machine that may be busy. */
	cr_expect_lt(loop_clock_ns() - began, INT64_C(2000000000));
	cr_expect_eq(atomic_load(&c.node[0].n_have), 0);
	crowd_remove(&c);
}

static void look_at_all(void *arg)
{
	struct p2p_image *i = arg;

	for (uint32_t k = 0; k < BLOCKS; k++)
		(void)image_look(i, k, loop_clock_ns());
}

Test(engine, a_list_hears_of_what_another_image_brought)
{
	struct crowd_config cfg = two;
	struct crowd c;

	cfg.nodes = 1;
	cfg.per_pack = BLOCKS;
	crowd_make(&c, &cfg);
	hold_origin(&c.node[0]);
	crowd_fetch(&c.node[0]);
	fault_wait_held(c.node[0].origin[0], 1);
	crowd_put(&c.node[0], 0, BLOCKS);
	engine_run(c.node[0].p2p, look_at_all, c.node[0].image);
	cr_expect_eq(crowd_join(&c.node[0]), 0);
	crowd_expect_whole(&c.node[0]);
	crowd_remove(&c);
}

static int64_t pause_for_ever(void *arg, uint64_t next_bytes)
{
	struct crowd_node *n = arg;

	atomic_fetch_add(&n->n_pauses, 1);
	return 10000000;
}

static int64_t pause_at_times(void *arg, uint64_t next_bytes)
{
	struct crowd_node *n = arg;

	return atomic_fetch_add(&n->n_pauses, 1) % 4 ? 10000000 : 0;
}

Test(engine, a_list_waits_while_it_is_paused)
{
	struct crowd_config cfg = two;
	struct p2p_stats s;
	struct crowd c;

	cfg.nodes = 1;
	crowd_make(&c, &cfg);
	c.node[0].pause = pause_for_ever;
	crowd_fetch(&c.node[0]);
	while (atomic_load(&c.node[0].n_pauses) < 10)
		p2p_get_stats(c.node[0].p2p, &s);
	__atomic_store_n(&c.node[0].cancel, true, __ATOMIC_RELAXED);
	cr_expect_eq(crowd_join(&c.node[0]), -ECANCELED);
	cr_expect_eq(crowd_origin_bytes(&c), 0);
	c.node[0].cancel = false;
	c.node[0].pause = pause_at_times;
	crowd_fetch(&c.node[0]);
	cr_expect_eq(crowd_join(&c.node[0]), 0);
	crowd_expect_whole(&c.node[0]);
	crowd_remove(&c);
}

Test(engine, a_cache_without_room_ends_a_list)
{
	struct crowd_config cfg = two;
	struct error err = ERROR_INIT;
	struct fetcher *fetcher;
	struct device *dev;
	struct crowd c;

	cfg.nodes = 1;
	cfg.quota = MIB;
	crowd_make(&c, &cfg);
	cr_assert_eq(cache_pin(c.node[0].cache, &c.img.map, &err), 0);
	crowd_fetch(&c.node[0]);
	cr_expect_eq(crowd_join(&c.node[0]), -ENOSPC, "%s", c.node[0].err.msg);
	/* Readers get what cannot be kept. */
	dev = crowd_device(&c.node[0], &fetcher);
	for (size_t k = 0; k < BLOCKS; k++)
		cr_assert_eq(read_block(&c.node[0], dev, k, &err), 0, "%s",
			     err.msg);
	device_free(dev);
	fetcher_free(fetcher);
	cache_unpin(c.node[0].cache, &c.img.map);
	crowd_remove(&c);
}

Test(engine, what_was_evicted_comes_from_elsewhere)
{
	struct crowd_config cfg = two;
	struct error err = ERROR_INIT;
	struct crowd c;
	uint64_t freed;

	cfg.relay = 0;
	crowd_make(&c, &cfg);
	crowd_put(&c.node[0], 0, BLOCKS);
	crowd_reopen(&c.node[0]);
	crowd_wait_peers(&c.node[1], 1);
	cr_assert_eq(cache_gc(c.node[0].cache, 0, &freed, &err), 0);
	cr_expect_gt(freed, 0);
	crowd_fetch(&c.node[1]);
	cr_assert_eq(crowd_join(&c.node[1]), 0, "%s", c.node[1].err.msg);
	crowd_expect_whole(&c.node[1]);
	cr_expect_eq(crowd_origin_bytes(&c), crowd_stored_bytes(&c));
	/* And back again: the first one knows that it has nothing. */
	crowd_fetch(&c.node[0]);
	cr_assert_eq(crowd_join(&c.node[0]), 0, "%s", c.node[0].err.msg);
	crowd_expect_whole(&c.node[0]);
	crowd_remove(&c);
}

Test(engine, a_node_that_drains_serves_no_more)
{
	struct crowd c;

	crowd_make(&c, &two);
	crowd_put(&c.node[0], 0, BLOCKS);
	crowd_reopen(&c.node[0]);
	crowd_wait_peers(&c.node[1], 1);
	p2p_drain(c.node[0].p2p, INT64_C(5000000000));
	crowd_fetch(&c.node[1]);
	cr_assert_eq(crowd_join(&c.node[1]), 0, "%s", c.node[1].err.msg);
	crowd_expect_whole(&c.node[1]);
	cr_expect_eq(crowd_origin_bytes(&c), crowd_stored_bytes(&c));
	crowd_remove(&c);
}

Test(engine, what_nobody_has_fails_and_says_why)
{
	struct error err = ERROR_INIT;
	struct fetcher *fetcher;
	struct device *dev;
	struct crowd c;

	crowd_make(&c, &two);
	crowd_put(&c.node[0], 1, BLOCKS - 1);
	crowd_reopen(&c.node[0]);
	crowd_origin_dies(&c.node[0]);
	crowd_origin_dies(&c.node[1]);
	crowd_wait_peers(&c.node[1], 1);
	dev = crowd_device(&c.node[1], &fetcher);
	cr_expect_eq(read_block(&c.node[1], dev, 0, &err), -EIO);
	cr_expect(strstr(err.msg, "fault on purpose"), "%s", err.msg);
	cr_expect_eq(read_block(&c.node[1], dev, 1, &err), 0, "%s", err.msg);
	device_free(dev);
	fetcher_free(fetcher);
	crowd_remove(&c);
}

Test(engine, nodes_come_and_go_while_others_fetch)
{
	static const struct crowd_config cfg = {
		.nodes = 6,
		.blocks = 240,
		.per_pack = 80,
		.usize = 64 << 10,
		.relay = 8 << 20,
	};
	struct crowd c;

	crowd_make(&c, &cfg);
	for (unsigned int k = 0; k < 6; k++)
		crowd_fetch(&c.node[k]);
	crowd_kill(&c.node[2]);
	crowd_fetch(crowd_add(&c, &cfg));
	crowd_kill(&c.node[4]);
	crowd_fetch(crowd_add(&c, &cfg));
	for (unsigned int k = 0; k < c.n; k++) {
		if (!c.node[k].p2p)
			continue;
		cr_assert_eq(crowd_join(&c.node[k]), 0, "node %u: %s", k,
			     c.node[k].err.msg);
		crowd_expect_whole(&c.node[k]);
	}
	crowd_remove(&c);
}
