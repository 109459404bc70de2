// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include "common/cleanup.h"
#include "registry/retention.h"

#define NOW 1000000

TestSuite(retention, .timeout = 120);

static char names[VOTES_MAX][8];
static struct vote votes[VOTES_MAX];

/* n votes of `token`, each an hour and i minutes old. */
static void fill(size_t n, const char *token)
{
	static char copy[16];

	snprintf(copy, sizeof(copy), "%s", token);
	for (size_t i = 0; i < n; i++) {
		snprintf(names[i], sizeof(names[i]), "n%zu", i);
		votes[i] = (struct vote){
			.token = copy,
			.node = names[i],
			.received = NOW - VOTE_FRESH_S - 60 * (int64_t)i - 1,
		};
	}
}

Test(retention, gives_a_new_voter_a_free_place)
{
	size_t at;

	fill(3, "t");
	cr_expect_eq(retention_judge(votes, 3, "t", "new", NOW, &at),
		     VERDICT_STORE);
}

Test(retention, lets_a_node_replace_only_its_own)
{
	size_t at;

	fill(3, "t");
	cr_expect_eq(retention_judge(votes, 3, "t", "n1", NOW, &at),
		     VERDICT_REPLACE);
	/* The same name under another token is another voter. */
	cr_expect_eq(retention_judge(votes, 3, "u", "n1", NOW, &at),
		     VERDICT_STORE);
}

Test(retention, makes_a_node_wait_before_it_votes_again)
{
	size_t at;

	fill(2, "t");
	votes[1].received = NOW;
	cr_expect_eq(retention_judge(votes, 2, "t", "n1", NOW, &at),
		     VERDICT_TOO_SOON);
}

Test(retention, keeps_fresh_votes_when_all_places_are_taken)
{
	size_t at = 99;

	fill(VOTES_MAX, "t");
	cr_expect_eq(retention_judge(votes, VOTES_MAX, "t", "new", NOW, &at),
		     VERDICT_DISPLACE);
	cr_expect_eq(at, VOTES_MAX - 1, "the oldest goes");
	for (size_t i = 0; i < VOTES_MAX; i++)
		votes[i].received = NOW - 10;
	cr_expect_eq(retention_judge(votes, VOTES_MAX, "t", "new", NOW, &at),
		     VERDICT_ENOUGH);
}

Test(retention, bounds_the_share_of_one_token_where_others_vote)
{
	static char evil[] = "evil";
	size_t at = 99;

	fill(VOTES_TOKEN_MAX + 2, "good");
	for (size_t i = 0; i < VOTES_TOKEN_MAX; i++)
		votes[i].token = evil;
	/* The token may only displace its own votes; its last one is its oldest. */
	cr_expect_eq(retention_judge(votes, VOTES_TOKEN_MAX + 2, "evil", "new",
				     NOW, &at),
		     VERDICT_DISPLACE);
	cr_expect_eq(at, VOTES_TOKEN_MAX - 1);
	cr_expect_eq(retention_judge(votes, VOTES_TOKEN_MAX + 2, "good", "new",
				     NOW, &at),
		     VERDICT_STORE);
}

Test(retention, lets_no_single_vote_decide_among_three)
{
	const uint64_t newest = retention_weight(0);
	const uint64_t old = retention_weight(400 * 86400);

	cr_expect_eq(newest, VOTE_WEIGHT_MAX);
	cr_expect_eq(old, VOTE_WEIGHT_MIN);
	cr_expect_lt(newest * 1000 / (newest + 2 * old), HOT_MIN_CONFIDENCE);
}

Test(retention, lets_weight_fall_with_age)
{
	uint32_t before = VOTE_WEIGHT_MAX;

	for (int64_t day = -1; day < 100; day++) {
		uint32_t w = retention_weight(day * 86400);

		cr_expect_leq(w, before);
		cr_expect_geq(w, VOTE_WEIGHT_MIN);
		before = w;
	}
}

Test(retention, wants_more_while_few_or_old)
{
	cr_expect(retention_wants(4, NOW, NOW));
	cr_expect_not(retention_wants(5, NOW, NOW));
	cr_expect(retention_wants(32, NOW, NOW + 8 * 86400));
}
