// SPDX-License-Identifier: Apache-2.0
/* One rule of the core in each test. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/p2p/swarm_bench.h"

TestSuite(swarm, .timeout = 20);

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

RULE(keeps_another_number_under_way_until_the_hot_set_is_here)
{
	for (unsigned int i = 0; i < 20; i++)
		joins(i, 0, PIECES);
	want(SOURCE_HOT, 0, PIECES);
	cr_expect_eq(b.n_asks, swarm_limits_default.flying_hot);
}

/* All links are for what is hot; but not for ever when it does not come. */
RULE(what_is_cold_is_not_read_while_what_is_hot_comes)
{
	joins(0, 0, 1);
	want(SOURCE_HOT, 0, 1);
	want(SOURCE_COLD, 1, PIECES - 1);
	pass(1900 * MS);
	cr_expect_eq(b.n_calls, 0);
	pass(200 * MS);
	cr_expect_eq(b.n_calls, 1);
	cr_expect_eq(b.wanted_as, SOURCE_COLD);
}

RULE(what_is_cold_is_read_though_it_is_ordered_again_and_again)
{
	joins(0, 0, 1);
	want(SOURCE_HOT, 0, 1);
	for (int i = 0; i < 5; i++) {
		want(SOURCE_COLD, 1, PIECES - 1);
		pass(1000 * MS);
	}
	cr_expect_gt(b.n_calls, 0);
	cr_expect_eq(b.wanted_as, SOURCE_COLD);
}

RULE(who_drips_what_is_hot_keeps_nothing_cold_for_ever)
{
	joins(0, 0, 50);
	want(SOURCE_HOT, 0, 50);
	want(SOURCE_COLD, 50, 50);
	for (int i = 0; i < 29; i++) {
		pass(1000 * MS);
		brings(0, b.asks[i].piece);
	}
	cr_expect_eq(b.n_calls, 0);
	pass(1500 * MS);
	cr_expect_eq(b.n_calls, 1);
	cr_expect_eq(b.wanted_as, SOURCE_COLD);
}

RULE(what_is_cold_is_read_when_what_is_hot_is_here)
{
	joins(0, 0, 1);
	want(SOURCE_HOT, 0, 1);
	want(SOURCE_COLD, 1, PIECES - 1);
	brings(0, 0);
	cr_expect_eq(b.n_calls, 1);
}

/* Whose turn it is does not read it either, so nobody is late. */
RULE(turns_of_others_wait_while_what_is_hot_comes)
{
	const uint64_t names[] = { swarm_name("a"), swarm_name("b"),
				   swarm_name("c") };
	size_t own;

	swarm_members(b.s, names, 3);
	swarm_tracker(b.s, false, b.now);
	joins(0, 0, 1);
	want(SOURCE_HOT, 0, 1);
	want(SOURCE_COLD, 1, 8);
	for (int i = 0; i < 15; i++) {
		swarm_moves(b.s, 0, 0, SIZE / 20, b.now);
		pass(100 * MS);
	}
	cr_expect_eq(b.n_reads, 0);
	brings(0, 0);
	pass(10 * MS);
	own = b.n_reads;
	cr_expect_lt(own, 8);
	for (size_t i = 0; i < own; i++)
		swarm_got(b.s, SWARM_NONE, b.reads[i], b.now);
	pass(2000 * MS);
	cr_expect_eq(b.n_reads, 8, "%zu, then %zu", own, b.n_reads);
}

RULE(asks_nobody_for_what_he_lost)
{
	struct swarm_range r = { 0, 50 };

	joins(0, 0, 50);
	cr_assert_eq(swarm_peer_lost(b.s, 0, r, b.now), 0);
	want(SOURCE_HOT, 0, 50);
	cr_expect_eq(b.n_asks, 0);
}

RULE(what_nobody_has_is_read_with_a_lease)
{
	want(SOURCE_HOT, 10, 4);
	cr_assert_eq(b.n_calls, 1);
	cr_assert_eq(b.n_wanted, 4);
	cr_expect_eq(b.n_reads, 0);
	answer(4, false, 0);
	cr_assert_eq(b.n_reads, 4);
	for (uint32_t i = 0; i < 4; i++)
		cr_expect_eq(b.reads[i], 10 + i, "ascending");
}

RULE(what_another_reads_is_waited_for)
{
	want(SOURCE_HOT, 10, 1);
	answer(0, false, 200 * MS);
	pass(100 * MS);
	cr_expect_eq(b.n_calls, 1);
	pass(150 * MS);
	cr_expect_eq(b.n_calls, 2);
}

RULE(a_promise_is_waited_for)
{
	struct swarm_range r = { 10, 1 };

	swarm_peer_join(b.s, 0, SWARM_REMOTE, 0, b.now);
	cr_assert_eq(swarm_peer_promises(b.s, 0, r, 300 * MS, b.now), 0);
	want(SOURCE_HOT, 10, 1);
	pass(250 * MS);
	cr_expect_eq(b.n_calls, 0);
	pass(100 * MS);
	cr_expect_eq(b.n_calls, 1);
}

/* ------------------------------------------------------- without a tracker --- */

#define CROWD 8u

/* Others, besides this node. */
static void others(size_t n)
{
	uint64_t names[CROWD];
	char name[8];

	for (size_t i = 0; i < n; i++) {
		(void)snprintf(name, sizeof(name), "n%zu", i);
		names[i] = swarm_name(name);
	}
	swarm_members(b.s, names, n);
	swarm_tracker(b.s, false, b.now);
}

/* The origin answers all that it was asked for. */
static void origin_answers(size_t from)
{
	for (size_t i = from; i < b.n_reads; i++)
		swarm_got(b.s, SWARM_NONE, b.reads[i], b.now);
}

Test(swarm, without_a_tracker_each_piece_is_one_nodes_turn)
{
	unsigned int times[40] = { 0 };

	for (unsigned int k = 0; k < CROWD; k++) {
		char name[8];

		(void)snprintf(name, sizeof(name), "n%u", k);
		b.n_reads = 0;
		begin_as(name);
		others(CROWD);
		want(SOURCE_COLD, 0, 40);
		cr_expect_gt(b.n_reads, 0, "some are ours");
		cr_expect_eq(b.n_calls, 0);
		for (size_t i = 0; i < b.n_reads; i++)
			times[b.reads[i]]++;
		end();
	}
	for (uint32_t i = 0; i < 40; i++)
		cr_expect_eq(times[i], 1, "piece %u: %u times", i, times[i]);
}

RULE(without_a_tracker_the_origin_gets_no_more_than_it_carries)
{
	swarm_tracker(b.s, false, b.now);
	want(SOURCE_COLD, 0, 40);
	pass(250 * MS);
	cr_expect_geq(b.n_reads, 10, "the origin's credit");
	cr_expect_leq(b.n_reads, 11, "and the piece that goes over it");
}

RULE(whose_turn_it_is_need_not_be_there)
{
	others(CROWD);
	want(SOURCE_COLD, 0, 40);
	origin_answers(0);
	cr_expect_lt(b.n_reads, 20);
	pass(450 * MS);
	cr_expect_lt(b.n_reads, 20, "they may be about it");
	for (int i = 0; i < 20; i++) {
		size_t before = b.n_reads;

		pass(100 * MS);
		origin_answers(before);
	}
	cr_expect_eq(b.n_reads, 40);
}

RULE(turns_are_believed_in_while_news_come)
{
	size_t before;

	others(CROWD);
	swarm_peer_join(b.s, 0, SWARM_REMOTE, 0, b.now);
	want(SOURCE_COLD, 0, 40);
	origin_answers(0);
	before = b.n_reads;
	for (uint32_t i = 0; i < 20; i++) {
		struct swarm_range r = { i, 1 };

		cr_assert_eq(swarm_peer_has(b.s, 0, r, b.now), 0);
		pass(200 * MS);
	}
	cr_expect_leq(b.n_reads - before, 2, "news of the same may come twice");
	pass(2000 * MS);
	cr_expect_gt(b.n_reads, before + 2);
}

RULE(a_reader_waits_a_second_for_others_turns)
{
	others(CROWD);
	for (uint32_t i = 0; i < 40; i++)
		cr_assert_eq(swarm_demand(b.s, i, b.now, b.now + 60000 * MS),
			     0);
	cr_expect_lt(b.n_reads, 20);
	pass(CROWD * swarm_limits_default.stagger_ns + 10 * MS);
	cr_expect_eq(b.n_reads, 40);
}

RULE(a_tracker_that_does_not_answer_is_none)
{
	want(SOURCE_HOT, 10, 1);
	cr_assert_eq(b.n_calls, 1);
	pass(swarm_limits_default.lease_wait_ns + 300 * MS);
	cr_expect_eq(b.n_reads, 1);
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

RULE(who_has_enough_to_ask_of_others_leaves_the_origin_alone)
{
	joins(0, 0, 40);
	want(SOURCE_COLD, 0, PIECES);
	pass(50 * MS);
	cr_expect_eq(b.n_calls, 0);
	/* Until most of it is here. */
	for (uint32_t i = 0; i < 30; i++)
		swarm_have(b.s, i, b.now);
	pass(50 * MS);
	cr_expect_gt(b.n_calls, 0);
}

RULE(what_those_who_left_had_is_read_whenever_they_leave)
{
	size_t answered = 0;

	joins(0, 0, PIECES / 2);
	joins(1, PIECES / 2, PIECES / 2);
	want(SOURCE_COLD, 0, PIECES);
	pass(50 * MS);
	cr_assert_eq(b.n_calls, 0);
	swarm_peer_leave(b.s, 0, b.now);
	pass(50 * MS);
	while (answered < b.n_calls) {
		size_t from = b.n_reads;

		answered = b.n_calls;
		answer(b.n_wanted, false, 0);
		while (from < b.n_reads)
			brings(SWARM_NONE, b.reads[from++]);
		pass(20 * MS);
	}
	cr_assert_eq(b.n_reads, PIECES / 2, "the first one's");
	swarm_peer_leave(b.s, 1, b.now);
	pass(50 * MS);
	cr_assert_gt(b.n_calls, answered, "the second one's");
	cr_expect_eq(b.n_wanted, PIECES / 2);
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

RULE(what_a_silent_peer_offers_does_not_keep_from_the_origin)
{
	joins(0, 0, PIECES);
	want(SOURCE_COLD, 0, PIECES);
	cr_assert_gt(b.n_asks, 0);
	pass(4000 * MS);
	cr_expect_gt(b.n_calls, 0);
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

RULE(a_peer_that_only_refuses_does_not_keep_from_the_origin)
{
	joins(0, 0, 1);
	want(SOURCE_COLD, 0, 1);
	for (int i = 0; i < 600 && b.n_calls == 0; i++) {
		if (b.n_asks > 0 && b.n_asks != b.n_cancels)
			swarm_refused(b.s, 0, 0, SWARM_BUSY, 10 * MS, b.now);
		pass(10 * MS);
	}
	cr_expect_gt(b.n_calls, 0);
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

RULE(what_hardly_comes_is_had_elsewhere)
{
	comes_at(SIZE / 100, 60);
	cr_expect_gt(b.n_cancels, 0);
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

RULE(a_silent_peer_is_tried_with_one_piece)
{
	size_t before;

	joins(0, 0, PIECES);
	want(SOURCE_HOT, 0, PIECES);
	pass(3000 * MS);
	cr_assert_eq(b.n_cancels, b.n_asks);
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

	joins(0, 0, PIECES);
	want(SOURCE_HOT, 0, PIECES);
	pass(3000 * MS);
	cr_assert_eq(b.n_cancels, b.n_asks);
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

RULE(what_others_have_but_nobody_here_is_asked_for_as_by_a_reader)
{
	want(SOURCE_HOT, 10, 1);
	for (int i = 0; i < 19; i++) {
		cr_expect_eq(b.wanted_as, SOURCE_HOT);
		answer(0, false, 90 * MS);
		pass(100 * MS);
	}
	pass(200 * MS);
	answer(0, false, 90 * MS);
	pass(100 * MS);
	cr_expect_eq(b.wanted_as, SOURCE_DEMAND);
}

RULE(what_others_have_is_waited_for_while_news_come)
{
	size_t got = 0;

	swarm_peer_join(b.s, 0, SWARM_REMOTE, 0, b.now);
	want(SOURCE_HOT, 10, 50);
	for (uint32_t i = 0; i < 40; i++) {
		struct swarm_range r = { 59 - i, 1 };

		answer(0, false, 90 * MS);
		cr_assert_eq(swarm_peer_has(b.s, 0, r, b.now), 0);
		pass(100 * MS);
		while (got < b.n_asks)
			brings(0, b.asks[got++].piece);
		cr_assert_eq(b.wanted_as, SOURCE_HOT);
	}
	cr_expect_eq(got, 40);
	cr_expect_gt(b.n_calls, 5);
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

RULE(who_waits_hears_when_every_source_failed)
{
	cr_assert_eq(swarm_demand(b.s, 3, b.now, b.now + 60000 * MS), 0);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(b.n_failed, 0);
		answer(1, false, 0);
		cr_assert_eq(b.n_reads, (size_t)i + 1);
		swarm_lost(b.s, SWARM_NONE, 3, -EIO, b.now);
		pass(900 * MS);
	}
	cr_expect_eq(b.n_failed, 1);
	cr_expect_eq(b.failed_rc, -EIO);
}

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
