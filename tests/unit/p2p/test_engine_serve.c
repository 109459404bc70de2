// SPDX-License-Identifier: Apache-2.0
/* What a node gives to others, from where, and for how long. */
#include <criterion/criterion.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "p2p/engine/engine_peer.h"
#include "tests/unit/p2p/crowd.h"
#include "tests/unit/p2p/wait.h"

TestSuite(engine_serve, .timeout = 120);

Test(engine_serve, what_left_the_relay_comes_from_the_cache)
{
	struct crowd_config cfg = crowd_two;
	struct crowd c;

	cfg.relay = 0;
	crowd_make(&c, &cfg);
	crowd_put(&c.node[0], 0, CROWD_TWO_BLOCKS);
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

/* The cache has those bytes already, as they are sent. */
Test(engine_serve, the_relay_keeps_nothing_that_is_stored_as_it_is)
{
	uint64_t packed = 0;
	unsigned int raw = 0;
	struct p2p_stats s;
	struct crowd c;

	crowd_make(&c, &crowd_two);
	crowd_fetch_all(&c);
	for (size_t k = 0; k < c.img.map.n_blocks; k++) {
		struct block b;

		blockmap_block(&c.img.map, k, &b);
		raw += b.codec == BLOCK_CODEC_RAW;
		if (b.codec != BLOCK_CODEC_RAW)
			packed += round_up(b.csize,
					   4096); /* as p2p/engine/relay.c */
	}
	cr_assert_gt(raw, 0);
	cr_assert_gt(packed, 0);
	for (unsigned int k = 0; k < c.n; k++) {
		p2p_get_stats(c.node[k].p2p, &s);
		cr_expect_eq(s.relay_bytes, packed, "node %u: %llu, not %llu",
			     k, (unsigned long long)s.relay_bytes,
			     (unsigned long long)packed);
	}
	crowd_remove(&c);
}

/* Nobody pins it any more while it is on its way, and its place is given away. */
Test(engine_serve, what_is_being_sent_is_not_evicted)
{
	struct error err = ERROR_INIT;
	struct crowd_config cfg = crowd_two;
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
	p2p_get_stats(c.node[1].p2p, &s);
	cr_expect_eq(s.wrong_total, 0);
	crowd_remove(&c);
}

Test(engine_serve, what_was_evicted_comes_from_elsewhere)
{
	struct crowd_config cfg = crowd_two;
	struct error err = ERROR_INIT;
	struct crowd c;
	uint64_t freed;

	cfg.relay = 0;
	crowd_make(&c, &cfg);
	crowd_put(&c.node[0], 0, CROWD_TWO_BLOCKS);
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
	serve_check(t->p, clock_now_ns() + t->later);
	LIST_FOREACH(l, &t->p->links, all)
	{
		net_get_link(l->net, &st);
		t->n += !LIST_EMPTY(&l->uploads);
		t->up += st.is_up && !LIST_EMPTY(&l->uploads);
	}
}

Test(engine_serve, who_takes_a_piece_for_ever_is_left)
{
	struct crowd_config cfg = crowd_two;
	struct takers t;
	struct crowd c;

	cfg.usize = MIB;
	cfg.blocks = 16;
	cfg.upload_rate = MIB; /* the rest takes a quarter of a minute */
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

Test(engine_serve, an_image_is_closed_though_somebody_takes_of_it_slowly)
{
	struct crowd_config cfg = crowd_two;
	struct takers t;
	struct crowd c;

	cfg.usize = 2 * MIB;
	cfg.blocks = 16;
	cfg.upload_rate = KIB; /* a piece takes half an hour */
	crowd_make(&c, &cfg);
	crowd_put(&c.node[0], 0, cfg.blocks);
	crowd_reopen(&c.node[0]);
	crowd_wait_peers(&c.node[1], 1);
	crowd_fetch(&c.node[1]);
	t = (struct takers){ .p = c.node[0].p2p };
	wait_for((engine_run(t.p, check_takers, &t), t.n));
	cr_assert_eq(t.n, 1);
	crowd_reopen(&c.node[0]);
	cr_assert_eq(crowd_join(&c.node[1]), 0, "%s", c.node[1].err.msg);
	crowd_remove(&c);
}
