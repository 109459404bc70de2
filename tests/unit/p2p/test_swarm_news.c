// SPDX-License-Identifier: Apache-2.0
/* What others are told: one rule of the core in each test. */
#include "tests/unit/p2p/swarm_bench.h"

TestSuite(swarm_news, .timeout = 120);

#define RULE(name) Test(swarm_news, name, .init = begin, .fini = end)

RULE(neighbours_are_told_everything_once)
{
	static struct swarm_news n;

	swarm_have(b.s, 4, b.now);
	swarm_have(b.s, 5, b.now);
	swarm_peer_join(b.s, 0, SWARM_REMOTE, 0, b.now);
	cr_expect_not(swarm_news(b.s, 0, &n));
	cr_assert_eq(n.n_have, 1);
	cr_expect_eq(n.have[0].first, 4);
	cr_expect_eq(n.have[0].n, 2);
	swarm_drop(b.s, 4);
	(void)swarm_news(b.s, 0, &n);
	cr_expect_eq(n.n_have, 0);
	cr_assert_eq(n.n_lost, 1);
	cr_expect_eq(n.lost[0].first, 4);
	want(SOURCE_HOT, 20, 1);
	answer(1, false, 0);
	(void)swarm_news(b.s, 0, &n);
	cr_assert_eq(n.n_promised, 1);
	cr_expect_eq(n.promised[0].first, 20);
	cr_expect_gt(n.eta_ns, 0);
	(void)swarm_news(b.s, 0, &n);
	cr_expect_eq(n.n_have + n.n_lost + n.n_promised, 0);
}

RULE(what_a_neighbour_has_is_no_news_to_him)
{
	static struct swarm_news n;

	joins(0, 10, 2);
	swarm_have(b.s, 10, b.now);
	swarm_have(b.s, 12, b.now);
	cr_expect_not(swarm_news(b.s, 0, &n));
	cr_assert_eq(n.n_have, 1);
	cr_expect_eq(n.have[0].first, 12);
	cr_expect_eq(n.have[0].n, 1);
	/* But it is when he has lost it. */
	cr_assert_eq(swarm_peer_lost(b.s, 0, (struct swarm_range){ 10, 1 },
				     b.now),
		     0);
	cr_expect_not(swarm_news(b.s, 0, &n));
	cr_assert_geq(n.n_have, 1);
	cr_expect_eq(n.have[0].first, 10);
}

/* Whoever hears of a piece twice in one go, or not in order, closes the link. */
RULE(news_are_in_order_and_of_a_piece_once)
{
	static const uint32_t came[] = { 40, 7, 41, 8, 6, 90 };
	static struct swarm_news n;

	swarm_peer_join(b.s, 0, SWARM_REMOTE, 0, b.now);
	cr_expect_not(swarm_news(b.s, 0, &n));
	for (size_t i = 0; i < ARRAY_SIZE(came); i++)
		swarm_have(b.s, came[i], b.now);
	swarm_drop(b.s, 7);
	swarm_have(b.s, 7, b.now);
	swarm_drop(b.s, 90);
	swarm_drop(b.s, 41);
	cr_expect_not(swarm_news(b.s, 0, &n));
	cr_assert_eq(n.n_have, 2);
	cr_expect(n.have[0].first == 6 && n.have[0].n == 3);
	cr_expect(n.have[1].first == 40 && n.have[1].n == 1);
	cr_assert_eq(n.n_lost, 2);
	cr_expect(n.lost[0].first == 41 && n.lost[0].n == 1);
	cr_expect(n.lost[1].first == 90 && n.lost[1].n == 1);
}

/* What was wanted an hour ago says nothing of what is wanted now. */
RULE(news_do_not_wait_since_nothing_was_wanted_for_long)
{
	joins(0, 0, PIECES);
	want(SOURCE_COLD, 0, 2);
	brings(0, 0);
	brings(0, 1);
	b.now += 3600 * 1000 * MS;
	want(SOURCE_COLD, 2, 2);
	pass(10 * MS);
	brings(0, 2);
	cr_expect_leq(swarm_news_ns(b.s), 100 * MS);
}

RULE(news_wait_as_long_as_pieces_take)
{
	joins(0, 0, PIECES);
	cr_expect_eq(swarm_news_ns(b.s), 10 * MS);
	want(SOURCE_HOT, 0, 1);
	want(SOURCE_COLD, 1, PIECES - 1);
	brings(0, 0);
	for (uint32_t i = 1; i < PIECES - 1; i++) {
		pass(50 * MS);
		brings(0, b.asks[b.n_asks - 1].piece);
	}
	cr_expect_gt(swarm_news_ns(b.s), 80 * MS);
	cr_expect_lt(swarm_news_ns(b.s), 120 * MS);
}

/* Each wrong byte came from the node that gave it, if nobody passes on what is not verified. */
Test(swarm_news, pieces_of_peers_are_not_told_before_they_are_verified,
     .init = begin_unverified, .fini = end)
{
	static struct swarm_news n;

	joins(0, 0, 10);
	swarm_peer_join(b.s, 1, SWARM_REMOTE, 0, b.now);
	want(SOURCE_HOT, 0, 10);
	brings(0, 3);
	swarm_have(b.s, 4, b.now);
	swarm_got(b.s, SWARM_NONE, 20, b.now);
	cr_expect_not(swarm_news(b.s, 1, &n));
	cr_assert_eq(n.n_have, 1);
	cr_expect(n.have[0].first == 20 && n.have[0].n == 1);
	cr_expect(swarm_has(b.s, 3));
	cr_expect_not(swarm_gives(b.s, 3));
	cr_expect_not(swarm_gives(b.s, 4));
	cr_expect(swarm_gives(b.s, 20));
	/* The origin was too late: a peer's bytes were kept. */
	swarm_doubt(b.s, 21);
	swarm_got(b.s, SWARM_NONE, 21, b.now);
	cr_expect_not(swarm_gives(b.s, 21));
	/* A newcomer gets all at once, which is the same. */
	swarm_peer_join(b.s, 2, SWARM_REMOTE, 0, b.now);
	cr_expect_not(swarm_news(b.s, 2, &n));
	cr_assert_eq(n.n_have, 1);
	swarm_vouch(b.s, (struct swarm_range){ 0, 4 });
	cr_expect(swarm_gives(b.s, 3));
	cr_expect_not(swarm_gives(b.s, 4));
	cr_expect_not(swarm_news(b.s, 1, &n));
	cr_assert_eq(n.n_have, 1);
	cr_expect(n.have[0].first == 3 && n.have[0].n == 1);
	/* Lost and brought anew it is as doubtful as the first time. */
	swarm_drop(b.s, 3);
	swarm_have(b.s, 3, b.now);
	cr_expect_not(swarm_gives(b.s, 3));
}
