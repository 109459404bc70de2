// SPDX-License-Identifier: Apache-2.0
/* What is read from the origin, and when: one rule of the core in each test. */
#include <errno.h>

#include "tests/unit/p2p/swarm_bench.h"

TestSuite(swarm_origin, .timeout = 120);

#define RULE(name) Test(swarm_origin, name, .init = begin, .fini = end)

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

/* An image is mounted for as long as its container runs. */
RULE(what_another_reads_is_waited_for_after_weeks_as_well)
{
	pass(100 * MS);
	for (unsigned int i = 0; i < 3; i++) {
		b.now += INT64_C(14) * 24 * 3600 * 1000 * MS;
		b.n_calls = 0;
		want(SOURCE_HOT, 10 + i, 1);
		answer(0, false, 200 * MS);
		pass(100 * MS);
		cr_expect_eq(b.n_calls, 1);
		pass(150 * MS);
		cr_expect_eq(b.n_calls, 2);
		answer(0, false, 200 * MS);
	}
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

/* A neighbour says each second that it reads the piece, and never has it. */
static void promises_for(uint32_t piece, int64_t ns)
{
	struct swarm_range r = { piece, 1 };

	for (int64_t until = b.now + ns; b.now < until;) {
		int64_t left = until - b.now;

		cr_assert_eq(swarm_peer_promises(b.s, 0, r, 100000 * MS, b.now),
			     0);
		pass(left < 1000 * MS ? left : 1000 * MS);
	}
}

static void reads_though_promised(void)
{
	swarm_peer_join(b.s, 0, SWARM_SAME_RACK, 0, b.now);
	promises_for(7, 500 * MS);
	cr_assert_eq(swarm_demand(b.s, 7, b.now, b.now + 30000 * MS), 0);
	promises_for(7, 900 * MS);
	cr_expect_eq(b.n_calls + b.n_reads, 0, "it is believed for a moment");
	promises_for(7, 200 * MS);
	cr_expect_eq(b.n_calls + b.n_reads, 1);
}

RULE(who_only_promises_keeps_no_reader_from_the_origin)
{
	reads_though_promised();
}

RULE(who_only_promises_keeps_no_reader_from_it_without_a_tracker)
{
	swarm_tracker(b.s, false, b.now);
	reads_though_promised();
}

/* Nor does another one that comes in its place. */
RULE(a_piece_that_is_always_promised_is_read_in_the_end)
{
	swarm_peer_join(b.s, 0, SWARM_SAME_RACK, 0, b.now);
	promises_for(7, 100 * MS);
	want(SOURCE_HOT, 7, 1);
	promises_for(7, swarm_limits_default.promise_max_ns - 200 * MS);
	cr_expect_eq(b.n_calls, 0);
	swarm_peer_leave(b.s, 0, b.now);
	swarm_peer_join(b.s, 0, SWARM_SAME_RACK, 0, b.now);
	promises_for(7, 200 * MS);
	cr_expect_eq(b.n_calls, 1);
}

RULE(a_tracker_that_does_not_answer_is_none)
{
	want(SOURCE_HOT, 10, 1);
	cr_assert_eq(b.n_calls, 1);
	pass(swarm_limits_default.lease_wait_ns + 300 * MS);
	cr_expect_eq(b.n_reads, 1);
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

RULE(what_a_silent_peer_offers_does_not_keep_from_the_origin)
{
	joins(0, 0, PIECES);
	want(SOURCE_COLD, 0, PIECES);
	cr_assert_gt(b.n_asks, 0);
	pass(4000 * MS);
	cr_expect_gt(b.n_calls, 0);
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

/* Whatever the tracker says: somebody may have told it that he read the piece. */
static void refused_for(int64_t ns, int64_t retry_ns)
{
	for (int64_t until = b.now + ns; b.now < until;) {
		size_t calls = b.n_calls;

		answer(0, false, retry_ns);
		while (b.n_calls == calls && b.n_reads == 0 && b.now < until)
			pass(MS);
		if (b.n_reads > 0)
			return;
	}
}

RULE(a_reader_whom_the_tracker_always_refuses_reads_in_the_end)
{
	cr_assert_eq(swarm_demand(b.s, 5, b.now, b.now + 60000 * MS), 0);
	refused_for(900 * MS, 100 * MS);
	cr_expect_eq(b.n_reads, 0, "somebody may be reading it");
	refused_for(200 * MS, 100 * MS);
	cr_assert_eq(b.n_reads, 1);
	cr_expect_eq(b.reads[0], 5);
}

RULE(nor_does_the_time_to_ask_again_keep_it_waiting)
{
	cr_assert_eq(swarm_demand(b.s, 5, b.now, b.now + 60000 * MS), 0);
	answer(0, false, 30000 * MS);
	pass(1100 * MS);
	cr_expect_eq(b.n_calls, 1);
	cr_expect_eq(b.n_reads, 1);
}

RULE(bulk_that_the_tracker_always_refuses_is_not_read)
{
	want(SOURCE_HOT, 5, 1);
	refused_for(20000 * MS, 100 * MS);
	cr_expect_eq(b.n_reads, 0);
}

RULE(a_refused_reader_asks_the_neighbour_that_has_it)
{
	cr_assert_eq(swarm_demand(b.s, 5, b.now, b.now + 60000 * MS), 0);
	answer(0, false, 10000 * MS);
	pass(900 * MS);
	joins(0, 5, 1);
	pass(300 * MS);
	cr_expect_eq(b.n_asks, 1);
	cr_expect_eq(b.n_reads, 0);
}

RULE(an_origin_that_failed_is_not_asked_sooner_by_who_is_refused)
{
	size_t calls;

	cr_assert_eq(swarm_demand(b.s, 5, b.now, b.now + 60000 * MS), 0);
	answer(0, false, 10000 * MS);
	pass(1100 * MS);
	cr_assert_eq(b.n_reads, 1);
	calls = b.n_calls;
	swarm_lost(b.s, SWARM_NONE, 5, -EIO, b.now);
	pass(150 * MS);
	cr_expect_eq(b.n_reads, 1);
	pass(100 * MS);
	cr_expect_eq(b.n_reads, 1);
	cr_assert_eq(b.n_calls, calls + 1, "the tracker hears first");
	answer(0, false, 10000 * MS);
	cr_expect_eq(b.n_reads, 2);
}

/* Not all at once: this one is not the first. */
RULE(refused_readers_read_by_turns)
{
	uint64_t names[SWARM_MEMBERS_MAX];
	char name[16];

	for (unsigned int i = 0; i < SWARM_MEMBERS_MAX; i++) {
		(void)snprintf(name, sizeof(name), "n%u", i);
		names[i] = swarm_name(name);
	}
	swarm_members(b.s, names, SWARM_MEMBERS_MAX);
	cr_assert_eq(swarm_demand(b.s, 5, b.now, b.now + 60000 * MS), 0);
	answer(0, false, 10000 * MS);
	pass(1040 * MS);
	cr_expect_eq(b.n_reads, 0);
	pass(1000 * MS);
	cr_expect_eq(b.n_reads, 1);
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

/* ------------------------------------------------------------- unverified pieces --- */

#define RULE_UNVERIFIED(name) \
	Test(swarm_origin, name, .init = begin_unverified, .fini = end)

/* Read all that was asked for with the last lease; so many pieces. */
static size_t reads_what_it_asked_for(void)
{
	size_t n = b.n_wanted;
	uint32_t pieces[SWARM_LEASE_MAX];

	memcpy(pieces, b.wanted, n * sizeof(*pieces));
	answer(n, false, 0);
	for (size_t i = 0; i < n; i++)
		brings(SWARM_NONE, pieces[i]);
	return n;
}

/* Peer 0 has pieces that nobody had, one each 200 ms, for so many. */
static void others_bring(uint32_t first, uint32_t n)
{
	for (uint32_t piece = first; piece < first + n; piece++) {
		struct swarm_range r = { piece, 1 };

		cr_assert_eq(swarm_peer_has(b.s, 0, r, b.now), 0);
		pass(200 * MS);
	}
}

/* The node reads until it leaves the origin to peer 0; the number of pieces that it read. */
static size_t reads_until_it_leaves_the_origin(void)
{
	size_t n = 0;

	joins(0, 0, 1);
	joins(1, 0, 1);
	want(SOURCE_HOT, 1, 98);
	while (b.n_calls && n < 90) {
		b.n_calls = 0;
		n += reads_what_it_asked_for();
		others_bring(98, 1);
	}
	return n;
}

/* Peers 0 and 1 lack what is read here, and each has to get it from here. */
RULE_UNVERIFIED(
	a_node_that_has_to_send_what_it_read_leaves_the_origin_to_others)
{
	size_t n = reads_until_it_leaves_the_origin();

	cr_assert_gt(n, 2);
	cr_assert_lt(n, 10, "it read %zu", n);
	for (uint32_t piece = 90; piece < 95; piece++)
		others_bring(piece, 1);
	cr_expect_eq(b.n_calls, 0);
	for (size_t i = 0; i < 2 * n; i++)
		swarm_sent(b.s, i % 2, 1);
	others_bring(95, 1);
	cr_expect_eq(b.n_calls, 1);
}

/* Peer 1 takes nothing, as one does that is stopped, or that has no room. */
RULE_UNVERIFIED(a_neighbour_that_takes_nothing_keeps_no_node_from_reading)
{
	size_t n = 0;

	joins(0, 0, 1);
	joins(1, 0, 1);
	want(SOURCE_HOT, 1, 98);
	for (uint32_t i = 0; i < 15; i++) {
		bool asked = b.n_calls;
		size_t read;

		b.n_calls = 0;
		read = asked ? reads_what_it_asked_for() : 0;
		n += read;
		for (size_t k = 0; k < read; k++)
			swarm_sent(b.s, 0, 1);
		others_bring(98 - i, 1);
	}
	cr_expect_gt(n, 15, "it read %zu", n);
}

RULE_UNVERIFIED(a_node_that_has_much_to_send_reads_what_nobody_brings)
{
	(void)reads_until_it_leaves_the_origin();
	others_bring(90, 1);
	pass(700 * MS);
	cr_expect_eq(b.n_calls, 0);
	pass(200 * MS);
	cr_expect_eq(b.n_calls, 1);
}

RULE_UNVERIFIED(what_is_whole_is_no_longer_to_be_sent_from_here_alone)
{
	(void)reads_until_it_leaves_the_origin();
	swarm_vouch(b.s, (struct swarm_range){ 0, PIECES });
	others_bring(90, 1);
	cr_expect_eq(b.n_calls, 1);
}

RULE(what_was_not_sent_is_no_matter_where_all_pass_pieces_on)
{
	cr_expect_geq(reads_until_it_leaves_the_origin(), 90);
}

/* Peer 0, which alone has piece 0, refuses it for so long. */
static void refuses_for(int64_t ns)
{
	for (int64_t until = b.now + ns; b.now < until; pass(10 * MS))
		if (b.n_asks) {
			b.n_asks = 0;
			swarm_refused(b.s, 0, 0, SWARM_BUSY, 10 * MS, b.now);
		}
}

RULE_UNVERIFIED(the_one_holder_is_waited_for_while_it_sends_to_others)
{
	joins(0, 0, 1);
	want(SOURCE_COLD, 0, 1);
	refuses_for(11000 * MS);
	cr_expect_eq(b.n_calls, 0);
	refuses_for(3000 * MS);
	cr_expect_gt(b.n_calls, 0);
}
