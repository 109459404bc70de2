// SPDX-License-Identifier: Apache-2.0
/* Requests for any of several pieces: one rule of the core in each test. */
#include "tests/unit/p2p/swarm_bench.h"

TestSuite(swarm_others, .timeout = 120);

#define RULE(name) Test(swarm_others, name, .init = begin, .fini = end)

static bool names(const struct noted *a, uint32_t piece)
{
	for (size_t i = 0; i < a->n_others; i++)
		if (a->others[i] == piece)
			return true;
	return a->piece == piece;
}

static unsigned int n_names(size_t from, uint32_t piece)
{
	unsigned int n = 0;

	for (size_t i = from; i < b.n_asks; i++)
		n += names(&b.asks[i], piece);
	return n;
}

/* The first request of many, each of which names several pieces. */
static struct noted asks_for_several(void)
{
	joins(0, 0, 50);
	want(SOURCE_HOT, 0, 50);
	cr_assert_gt(b.asks[0].n_others, 0);
	return b.asks[0];
}

RULE(a_request_names_what_would_do_as_well_and_no_other_does)
{
	joins(0, 0, 50);
	joins(1, 0, 50);
	want(SOURCE_HOT, 0, 50);
	cr_assert_gt(b.n_asks, 1);
	cr_expect_gt(b.asks[0].n_others, 0);
	for (uint32_t i = 0; i < 50; i++)
		cr_expect_leq(n_names(0, i), 1, "piece %u", i);
}

RULE(the_peer_says_which_and_the_others_are_asked_for_again)
{
	struct swarm_stats st;

	joins(0, 0, 50);
	want(SOURCE_HOT, 0, 50);
	for (size_t i = 0; i < b.n_asks && i < 200; i++) {
		const struct noted *a = &b.asks[i];
		uint32_t piece =
			a->n_others ? a->others[a->n_others - 1] : a->piece;

		cr_assert_not(swarm_has(b.s, piece), "asked for in vain");
		brings(0, piece);
	}
	swarm_get_stats(b.s, &st);
	cr_expect_eq(st.hot_have, 50);
	cr_expect_eq(b.n_asks, 50);
	cr_expect_eq(st.flying_bytes, 0);
	cr_expect_eq(b.n_cancels, 0);
}

RULE(a_refusal_is_of_all_that_was_named)
{
	struct noted first = asks_for_several();
	size_t n = b.n_asks;

	swarm_refused(b.s, 0, first.piece, SWARM_SENDING, 60 * MS, b.now);
	pass(20 * MS);
	cr_assert_gt(b.n_asks, n);
	for (size_t i = 0; i < first.n_others; i++)
		cr_expect_eq(n_names(1, first.others[i]), 0);
	cr_expect_eq(n_names(1, first.piece), 0);
}

RULE(a_reader_does_not_wait_to_hear_which_it_is)
{
	struct swarm_stats st;
	struct noted first = asks_for_several();
	size_t n = b.n_asks;

	cr_assert_eq(swarm_demand(b.s, first.others[0], b.now,
				  b.now + 900 * MS),
		     0);
	cr_assert_eq(b.n_cancels, 1);
	cr_expect_eq(b.cancels[0].piece, first.piece);
	cr_expect_eq(n_names(n, first.others[0]), 1);
	cr_expect_eq(b.asks[n].priority, SOURCE_DEMAND);
	/* And what was named with it is not forgotten. */
	for (size_t k = 1; k < b.n_asks && k < 200; k++)
		brings(0, b.asks[k].piece);
	swarm_get_stats(b.s, &st);
	cr_expect_eq(st.hot_have, 50);
}

RULE(what_was_taken_back_and_comes_late_answers_nothing_newer)
{
	struct noted first = asks_for_several();

	swarm_got(b.s, 0, first.others[0], b.now);
	cr_assert_eq(b.n_cancels, 1, "its answer may be another one");
	cr_expect_eq(b.cancels[0].piece, first.piece);
}

RULE(who_understands_one_is_asked_for_one)
{
	swarm_peer_join(b.s, 0, SWARM_SAME_RACK, 0, b.now);
	swarm_peer_takes_one(b.s, 0);
	cr_assert_eq(swarm_peer_has(b.s, 0, (struct swarm_range){ 0, 50 },
				    b.now),
		     0);
	want(SOURCE_HOT, 0, 50);
	cr_assert_gt(b.n_asks, 0);
	for (size_t i = 0; i < b.n_asks; i++)
		cr_expect_eq(b.asks[i].n_others, 0);
}

RULE(what_came_from_elsewhere_meanwhile_is_not_taken_twice)
{
	struct noted first = asks_for_several();

	swarm_have(b.s, first.others[0], b.now);
	cr_expect_eq(b.n_cancels, 1);
	cr_expect_eq(b.cancels[0].piece, first.piece);
	/* What it had begun to send comes for all that. */
	swarm_begins(b.s, 0, first.others[0]);
	swarm_got(b.s, 0, first.others[0], b.now);
	cr_expect(swarm_has(b.s, first.others[0]));
}
