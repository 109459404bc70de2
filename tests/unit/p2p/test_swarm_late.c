// SPDX-License-Identifier: Apache-2.0
/* What is late, and who is silent: one rule of the core in each test. */
#include "tests/unit/p2p/swarm_bench.h"

TestSuite(swarm_late, .timeout = 120);

#define RULE(name) Test(swarm_late, name, .init = begin, .fini = end)

RULE(bulk_that_stalls_is_asked_elsewhere)
{
	joins(0, 0, 1);
	want(SOURCE_HOT, 0, 20); /* not the last of all */
	cr_assert_eq(b.n_asks, 1);
	joins(1, 0, 1);
	pass(4000 * MS);
	cr_assert_geq(b.n_cancels, 1);
	cr_expect_eq(b.cancels[0].peer, 0);
	cr_expect_geq(b.n_asks, 2);
}

/* After one answer in a second: 100 kB/s is usual. */
static void comes_at(uint32_t bytes_a_second, int seconds)
{
	joins(0, 0, 20);
	want(SOURCE_HOT, 0, 40); /* not the last of all */
	pass(1000 * MS);
	brings(0, b.asks[0].piece);
	joins(1, 0, 20);
	for (int i = 0; i < 50 * seconds; i++) {
		for (size_t k = 1; k < b.n_asks; k++)
			swarm_moves(b.s, b.asks[k].peer, b.asks[k].piece,
				    bytes_a_second / 50, b.now);
		pass(20 * MS);
	}
}

RULE(what_comes_slowly_is_not_asked_for_again)
{
	comes_at(SIZE / 5, 5);
	cr_expect_eq(b.n_cancels, 0);
}

RULE(what_hardly_comes_is_had_elsewhere)
{
	comes_at(SIZE / 100, 60);
	cr_expect_gt(b.n_cancels, 0);
}

/* The others took two seconds for each: one that came in a burst is no measure. */
RULE(after_one_fast_answer_nothing_is_late)
{
	size_t n;

	joins(1, 0, 10);
	want(SOURCE_HOT, 0, 40); /* not the last of all */
	for (size_t k = 0; k < 8; k++) {
		for (int i = 0; i < 20; i++) {
			swarm_moves(b.s, 1, b.asks[k].piece, SIZE / 40, b.now);
			pass(100 * MS);
		}
		brings(1, b.asks[k].piece);
	}
	n = b.n_cancels;
	joins(0, 10, 2);
	pass(2 * MS);
	cr_assert_eq(b.asks[b.n_asks - 1].peer, 0);
	brings(0, b.asks[b.n_asks - 1].piece);
	pass(1500 * MS);
	cr_expect_eq(b.n_cancels, n, "the other one of his");
	pass(1000 * MS);
	cr_expect_gt(b.n_cancels, n);
}

RULE(an_answer_in_a_burst_does_not_make_all_others_late)
{
	joins(0, 0, 40);
	want(SOURCE_HOT, 0, 40);
	for (size_t i = 0; i < 8; i++) {
		pass(1000 * MS);
		brings(0, b.asks[i].piece);
	}
	b.now += MS / 10;
	brings(0, b.asks[b.n_asks - 1].piece);
	cr_expect_eq(b.n_cancels, 0);
	pass(900 * MS);
	cr_expect_eq(b.n_cancels, 0);
}

RULE(what_hangs_on_a_silent_peer_is_read_elsewhere_at_once)
{
	joins(0, 0, PIECES);
	want(SOURCE_HOT, 0, PIECES);
	pass(100 * MS);
	brings(0, b.asks[0].piece);
	cr_assert_geq(b.n_asks, 4);
	cr_assert_eq(b.n_calls, 0);
	pass(2400 * MS);
	cr_expect_eq(b.n_cancels, b.n_asks - 1, "all of it");
	cr_assert_geq(b.n_calls, 1);
	cr_expect_eq(b.wanted_as, SOURCE_DEMAND,
		     "its holder is there, says "
		     "the tracker");
}

RULE(a_hiccup_does_not_send_to_the_origin)
{
	joins(0, 0, PIECES);
	want(SOURCE_HOT, 0, PIECES);
	for (size_t i = 0; i < 30; i++) {
		pass(20 * MS);
		brings(0, b.asks[i].piece);
	}
	pass(900 * MS);
	cr_expect_gt(b.n_cancels, 0, "it is late");
	cr_expect_eq(b.n_calls, 0);
}

/* However fast all came before: a moment in which a machine does something else is
 * no reason to ask again. */
RULE(nothing_is_late_within_half_a_second)
{
	joins(0, 0, PIECES);
	want(SOURCE_HOT, 0, PIECES);
	for (size_t i = 0; i < 60; i++) {
		pass(MS);
		brings(0, b.asks[i].piece);
	}
	pass(495 * MS);
	cr_expect_eq(b.n_cancels, 0);
	pass(10 * MS);
	cr_expect_gt(b.n_cancels, 0, "that is enough");
}

/* Its own link may be slow, on which answers starve each other. */
RULE(who_gets_nothing_in_time_waits_longer)
{
	size_t first;

	for (unsigned int i = 0; i < 20; i++)
		joins(i, 0, PIECES);
	want(SOURCE_COLD, 0, PIECES);
	pass(2200 * MS);
	first = b.n_cancels;
	cr_assert_eq(first, swarm_limits_default.flying_pieces);
	pass(3600 * MS);
	cr_expect_eq(b.n_cancels, first, "twice as long");
	pass(400 * MS);
	cr_expect_eq(b.n_cancels, 2 * first);
}

/* All that he was asked for was taken back. */
static void falls_silent(void)
{
	joins(0, 0, PIECES);
	want(SOURCE_HOT, 0, PIECES);
	pass(3000 * MS);
	cr_assert_eq(b.n_cancels, b.n_asks);
}

RULE(a_silent_peer_is_tried_with_one_piece)
{
	size_t before;

	falls_silent();
	before = b.n_asks;
	while (b.n_asks == before)
		pass(MS);
	pass(100 * MS);
	cr_assert_eq(b.n_asks, before + 1);
	brings(0, b.asks[before].piece);
	cr_expect_gt(b.n_asks, before + 2, "it is back");
}

RULE(a_silent_peer_is_tried_by_a_reader_when_nobody_else_can_be)
{
	const int64_t late = 60000 * MS;
	size_t before;

	falls_silent();
	swarm_forget(b.s, SOURCE_HOT, b.now);
	pass(5000 * MS);
	before = b.n_asks;
	cr_assert_eq(swarm_demand(b.s, 5, b.now, b.now + late), 0);
	cr_assert_eq(swarm_demand(b.s, 6, b.now, b.now + late), 0);
	pass(MS);
	cr_assert_eq(b.n_asks, before + 1, "one piece of him");
	brings(0, b.asks[before].piece);
	pass(100 * MS);
	cr_expect_eq(b.n_asks, before + 2, "he is back: %zu",
		     b.n_asks - before);
}

RULE(who_stood_still_himself_blames_nobody)
{
	joins(0, 0, PIECES);
	want(SOURCE_HOT, 0, PIECES);
	pass(100 * MS);
	b.now += 30000 * MS;
	pass(100 * MS);
	cr_expect_eq(b.n_cancels, 0);
}

/* All that he was asked for comes a byte in half a second: he is not silent. */
static void trickles(int seconds)
{
	for (int i = 0; i < 2 * seconds; i++) {
		for (size_t k = 0; k < b.n_asks; k++)
			swarm_moves(b.s, b.asks[k].peer, b.asks[k].piece, 1,
				    b.now);
		pass(500 * MS);
	}
}

RULE(who_sends_a_byte_now_and_then_holds_nothing_for_long)
{
	size_t asked;

	joins(0, 0, PIECES);
	want(SOURCE_HOT, 0, PIECES);
	trickles(60);
	asked = b.n_asks;
	trickles(130);
	cr_expect_geq(b.n_cancels, asked, "%zu of %zu", b.n_cancels, asked);
}

/* The last piece, which is asked of a second one too. */
RULE(nor_do_two_of_them)
{
	joins(0, 0, 1);
	joins(1, 0, 1);
	want(SOURCE_HOT, 0, 1);
	trickles(10);
	cr_assert_eq(b.n_asks, 2);
	trickles(130);
	cr_expect_geq(b.n_cancels, 2);
	cr_expect_gt(b.n_calls, 0, "then it is the origin's turn");
}
