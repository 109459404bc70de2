// SPDX-License-Identifier: Apache-2.0
/* Who is asked for what: one rule of the core in each test. */
#include <errno.h>
#include <string.h>

#include "tests/unit/p2p/swarm_bench.h"

TestSuite(swarm, .timeout = 120);

#define RULE(name) Test(swarm, name, .init = begin, .fini = end)

RULE(demand_is_asked_first_by_deadline)
{
	cr_assert_eq(swarm_demand(b.s, 5, b.now, b.now + 900 * MS), 0);
	cr_assert_eq(swarm_demand(b.s, 6, b.now, b.now + 100 * MS), 0);
	want(SOURCE_HOT, 0, 50);
	joins(0, 0, PIECES);
	pass(2 * MS);
	cr_assert_geq(b.n_asks, 3);
	cr_expect_eq(b.asks[0].piece, 6);
	cr_expect_eq(b.asks[1].piece, 5);
	cr_expect_eq(b.asks[0].priority, SOURCE_DEMAND);
	cr_expect_eq(b.asks[2].priority, SOURCE_HOT);
}

RULE(of_a_window_the_rarest_comes_first)
{
	joins(0, 0, 50);
	joins(1, 0, 20);
	joins(2, 21, 29);
	want(SOURCE_HOT, 0, 50);
	cr_expect_eq(b.asks[0].piece, 20, "only one has it");
}

RULE(keeps_few_pieces_under_way)
{
	struct swarm_stats st;

	for (unsigned int i = 0; i < 20; i++)
		joins(i, 0, PIECES);
	want(SOURCE_HOT, 0, 1);
	want(SOURCE_COLD, 1, PIECES - 1);
	swarm_got(b.s, b.asks[0].peer, 0, b.now);
	pass(2 * MS);
	swarm_get_stats(b.s, &st);
	cr_expect_eq(b.n_asks, swarm_limits_default.flying_pieces + 1);
	cr_expect_eq(st.flying_bytes, (b.n_asks - 1) * SIZE);
}

/* However little of it is sent; an eighth is for readers. */
Test(swarm, keeps_no_more_under_way_than_may_be_unpacked, .fini = end)
{
	begin_unpacking(1000, 4000);
	for (unsigned int i = 0; i < 20; i++)
		joins(i, 0, PIECES);
	want(SOURCE_COLD, 0, PIECES);
	pass(2 * MS);
	cr_assert_eq(b.n_asks, 3);
	cr_assert_eq(swarm_demand(b.s, 99, b.now, b.now + 900 * MS), 0);
	cr_assert_eq(swarm_demand(b.s, 98, b.now, b.now + 900 * MS), 0);
	cr_expect_eq(b.n_asks, 4);
	swarm_begins(b.s, b.asks[0].peer, b.asks[0].piece);
	swarm_got(b.s, b.asks[0].peer, b.asks[0].piece, b.now);
	cr_expect_eq(b.n_asks, 5);
	cr_expect_eq(b.asks[4].priority, SOURCE_DEMAND);
}

RULE(asks_nobody_for_what_he_lost)
{
	struct swarm_range r = { 0, 50 };

	joins(0, 0, 50);
	cr_assert_eq(swarm_peer_lost(b.s, 0, r, b.now), 0);
	want(SOURCE_HOT, 0, 50);
	cr_expect_eq(b.n_asks, 0);
}

RULE(a_busy_peer_is_left_alone_for_a_while)
{
	joins(0, 0, 1);
	want(SOURCE_HOT, 0, 1);
	cr_assert_eq(b.n_asks, 1);
	swarm_refused(b.s, 0, 0, SWARM_BUSY, 50 * MS, b.now);
	pass(30 * MS);
	cr_expect_eq(b.n_asks, 1);
	pass(40 * MS);
	cr_expect_eq(b.n_asks, 2);
}

RULE(a_piece_that_goes_elsewhere_is_asked_for_again_when_it_is_there)
{
	joins(0, 0, 2);
	joins(1, 5, 1);
	want(SOURCE_HOT, 0, 1);
	cr_assert_eq(b.n_asks, 1);
	swarm_refused(b.s, 0, 0, SWARM_SENDING, 500 * MS, b.now);
	/* The peer is asked for other pieces meanwhile. */
	cr_assert_eq(swarm_demand(b.s, 1, b.now, b.now + 60000 * MS), 0);
	cr_assert_eq(b.n_asks, 2);
	pass(20 * MS);
	cr_expect_eq(b.n_asks, 2);
	cr_assert_eq(swarm_peer_has(b.s, 1, (struct swarm_range){ 0, 1 },
				    b.now),
		     0);
	cr_expect_eq(b.n_asks, 3);
}

/* All asks since `from` are answered 10 ms later: by peer `liar`, that it sends the
 * piece to somebody else.  Returns how long `n` pieces took. */
static int64_t time_with(unsigned int liar, uint32_t n)
{
	static struct {
		unsigned int peer;
		uint32_t piece;
		int64_t at;
	} queue[256];
	size_t told = 0, done = 0;
	int64_t begun = b.now;
	uint32_t here = 0;

	want(SOURCE_HOT, 0, n);
	while (here < n && b.now - begun < 20000 * MS) {
		for (; told < b.n_asks; told++) {
			queue[told % 256].peer = b.asks[told % 256].peer;
			queue[told % 256].piece = b.asks[told % 256].piece;
			queue[told % 256].at = b.now + 10 * MS;
		}
		while (done < told && queue[done % 256].at <= b.now) {
			unsigned int peer = queue[done % 256].peer;
			uint32_t piece = queue[done++ % 256].piece;

			if (peer == liar)
				swarm_refused(b.s, peer, piece, SWARM_SENDING,
					      2000 * MS, b.now);
			else
				swarm_got(b.s, peer, piece, b.now);
		}
		pass(MS);
		here = 0;
		for (uint32_t i = 0; i < n; i++)
			here += swarm_has(b.s, i);
	}
	cr_assert_eq(here, n);
	return b.now - begun;
}

RULE(who_says_that_it_sends_elsewhere_keeps_nobody_from_the_others)
{
	int64_t alone;

	for (unsigned int i = 0; i < 3; i++)
		joins(i, 0, PIECES);
	alone = time_with(SWARM_NONE, PIECES);
	end();
	memset(&b, 0, sizeof(b));
	begin();
	for (unsigned int i = 0; i < 4; i++)
		joins(i, 0, PIECES);
	cr_expect_lt(time_with(3, PIECES), alone * 3 / 2);
}

RULE(what_is_due_is_looked_at_often_for_readers_alone)
{
	joins(0, 0, PIECES);
	want(SOURCE_COLD, 0, PIECES);
	cr_expect_eq(swarm_tick(b.s, b.now), b.now + 5 * MS);
	for (int i = 0; i < 16; i++) {
		b.now += 10 * MS;
		swarm_moves(b.s, 0, b.asks[0].piece, SIZE / 40, b.now);
	}
	brings(0, b.asks[0].piece);
	cr_expect_eq(swarm_tick(b.s, b.now), b.now + 20 * MS);
	cr_assert_eq(swarm_demand(b.s, 50, b.now, b.now + 900 * MS), 0);
	cr_expect_eq(swarm_tick(b.s, b.now), b.now + 5 * MS);
}

RULE(nobody_is_believed_that_he_is_busy_for_hours)
{
	joins(0, 0, 1);
	want(SOURCE_HOT, 0, 1);
	cr_assert_eq(b.n_asks, 1);
	swarm_refused(b.s, 0, 0, SWARM_SENDING, INT64_MAX / 2, b.now);
	pass(2100 * MS);
	cr_expect_eq(b.n_asks, 2);
	swarm_refused(b.s, 0, 0, SWARM_BUSY, INT64_MAX / 2, b.now);
	pass(2100 * MS);
	cr_expect_eq(b.n_asks, 3);
}

RULE(three_wrong_answers_are_a_quarantine)
{
	joins(0, 0, 3);
	want(SOURCE_HOT, 0, 3);
	cr_assert_eq(b.n_asks, 3);
	for (uint32_t i = 0; i < 3; i++) {
		cr_expect_eq(b.quarantine_ns, 0);
		swarm_lost(b.s, 0, i, -EBADMSG, b.now);
	}
	cr_expect_eq(b.quarantine_ns, 30000 * MS);
}

RULE(a_quarantine_doubles_up_to_five_minutes)
{
	static const int64_t seconds[] = { 30, 60, 120, 240, 300, 300 };

	for (unsigned int k = 0; k < ARRAY_SIZE(seconds); k++) {
		struct swarm_range r = { 0, 3 };

		swarm_peer_join(b.s, k, SWARM_REMOTE, k, b.now);
		cr_assert_eq(swarm_peer_has(b.s, k, r, b.now), 0);
		for (uint32_t i = 0; i < 3; i++)
			swarm_lost(b.s, k, i, -EBADMSG, b.now);
		cr_expect_eq(b.quarantine_ns, seconds[k] * 1000 * MS);
	}
}

RULE(demand_is_hedged_and_the_loser_cancelled)
{
	joins(0, 0, 1);
	joins(1, 0, 1);
	cr_assert_eq(swarm_demand(b.s, 0, b.now, b.now + 5000 * MS), 0);
	cr_assert_eq(b.n_asks, 1);
	pass(10 * MS);
	cr_expect_eq(b.n_asks, 1);
	pass(30 * MS);
	cr_assert_eq(b.n_asks, 2);
	cr_expect_neq(b.asks[0].peer, b.asks[1].peer);
	swarm_got(b.s, b.asks[1].peer, 0, b.now);
	cr_assert_eq(b.n_cancels, 1);
	cr_expect_eq(b.cancels[0].peer, b.asks[0].peer);
}

RULE(a_demand_ends_at_its_deadline)
{
	cr_assert_eq(swarm_demand(b.s, 3, b.now, b.now + 50 * MS), 0);
	pass(60 * MS);
	cr_expect_eq(b.n_failed, 1);
	cr_expect_eq(b.failed, 3);
	cr_expect_eq(b.failed_rc, -ETIMEDOUT);
}

RULE(a_pause_is_for_all_but_demand)
{
	joins(0, 0, PIECES);
	swarm_pause(b.s, true, b.now);
	want(SOURCE_HOT, 0, 50);
	pass(50 * MS);
	cr_expect_eq(b.n_asks, 0);
	cr_assert_eq(swarm_demand(b.s, 9, b.now, b.now + 1000 * MS), 0);
	cr_expect_eq(b.n_asks, 1);
	swarm_pause(b.s, false, b.now);
	cr_expect_gt(b.n_asks, 1);
}

RULE(what_is_forgotten_is_cancelled)
{
	joins(0, 0, PIECES);
	want(SOURCE_HOT, 0, 50);
	cr_assert_gt(b.n_asks, 0);
	swarm_forget(b.s, SOURCE_HOT, b.now);
	cr_expect_eq(b.n_cancels, b.n_asks);
}
