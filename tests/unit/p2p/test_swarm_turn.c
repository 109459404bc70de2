// SPDX-License-Identifier: Apache-2.0
/* Whose turn it is to read, without a tracker: one rule of the core in each test. */
#include <stdio.h>

#include "tests/unit/p2p/swarm_bench.h"

TestSuite(swarm_turn, .timeout = 120);

#define RULE(name) Test(swarm_turn, name, .init = begin, .fini = end)

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

Test(swarm_turn, without_a_tracker_each_piece_is_one_nodes_turn)
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

RULE(turns_are_not_believed_in_for_promises_alone)
{
	size_t before;

	others(CROWD);
	swarm_peer_join(b.s, 0, SWARM_REMOTE, 0, b.now);
	want(SOURCE_COLD, 0, PIECES);
	do {
		before = b.n_reads;
		origin_answers(0);
		pass(MS);
	} while (b.n_reads > before);
	cr_assert_lt(before, PIECES / 2, "those in its own turn");
	/* Of a piece after the other: each is promised for the first time. */
	for (uint32_t i = 0; i < PIECES && b.n_reads == before; i++) {
		struct swarm_range r = { i, 1 };

		if (swarm_has(b.s, i))
			continue;
		cr_assert_eq(swarm_peer_promises(b.s, 0, r, 300 * MS, b.now),
			     0);
		pass(400 * MS);
	}
	cr_expect_gt(b.n_reads, before);
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
