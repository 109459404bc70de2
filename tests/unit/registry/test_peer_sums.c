// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "registry/peer_sums.h"

TestSuite(peer_sums, .timeout = 60);

Test(peer_sums, adds_up_pairs_and_counts_partners_once)
{
	struct peer_sums_result r;
	struct error err = ERROR_INIT;
	struct peer_sums *s;

	cr_assert_eq(peer_sums_new(&s, &err), 0);
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(peer_sums_add(s, "b", 60, 5), 0);
		cr_assert_eq(peer_sums_add_pair(s, "a", "b", 50), 0);
		cr_assert_eq(peer_sums_add_pair(s, "c", "b", 10), 0);
	}
	cr_assert_eq(peer_sums_add_pair(s, "a", "c", 7), 0);
	/* A node that gave 0 bytes does not count as giver. */
	cr_assert_eq(peer_sums_add_pair(s, "c", "a", 0), 0);
	cr_assert_eq(peer_sums_end(s, &r), 0);
	cr_assert_eq(r.n_nodes, 3);
	cr_assert_eq(r.n_pairs, 4);
	cr_expect_eq(r.got, 120);
	cr_expect_eq(r.origin, 10);
	cr_expect_eq(r.left_out, 0);
	cr_expect_str_eq(r.nodes[r.order[0]].name, "a");
	cr_expect_eq(r.nodes[r.order[0]].gave, 107);
	cr_expect_eq(r.nodes[r.order[0]].takers, 2);
	cr_expect_eq(r.nodes[r.order[0]].givers, 0);
	cr_expect_str_eq(r.nodes[r.order[1]].name, "c");
	cr_expect_str_eq(r.nodes[r.order[2]].name, "b");
	cr_expect_eq(r.nodes[r.order[2]].got, 120);
	cr_expect_eq(r.nodes[r.order[2]].givers, 2);
	cr_expect_eq(r.pairs[0].bytes, 100);
	cr_expect_str_eq(r.nodes[r.pairs[0].giver].name, "a");
	cr_expect_str_eq(r.nodes[r.pairs[0].taker].name, "b");
	peer_sums_free(s);
}

/* A taker invents givers with more bytes than all real pairs. */
Test(peer_sums, tells_pairs_of_others_although_one_taker_has_the_largest)
{
	struct peer_sums_result r;
	struct error err = ERROR_INIT;
	struct peer_sums *s;
	bool shown[61] = { false };
	size_t n_bad = 0, n = 0;
	char name[16];

	cr_assert_eq(peer_sums_new(&s, &err), 0);
	for (unsigned int i = 0; i < 40; i++) {
		(void)snprintf(name, sizeof(name), "made%u", i);
		cr_assert_eq(peer_sums_add_pair(s, name, "bad", 1000 + i), 0);
	}
	for (unsigned int i = 0; i < 20; i++) {
		(void)snprintf(name, sizeof(name), "n%u", i);
		cr_assert_eq(peer_sums_add_pair(s, "giver", name, 1 + i), 0);
	}
	cr_assert_eq(peer_sums_end(s, &r), 0);
	cr_assert_eq(r.n_pairs, 60);
	cr_assert_eq(peer_sums_choose(&r, "", 32, shown), 0);
	for (size_t i = 0; i < r.n_pairs; i++) {
		n += shown[i];
		n_bad += shown[i] &&
			 strcmp(r.nodes[r.pairs[i].taker].name, "bad") == 0;
	}
	/* The places go to all other pairs, to the taker's share, and the rest to the taker as
	 * well. */
	cr_assert_eq(n, 32);
	cr_assert_eq(n_bad, 12);
	memset(shown, 0, sizeof(shown));
	cr_assert_eq(peer_sums_choose(&r, "", 16, shown), 0);
	cr_assert(shown[0]);
	cr_assert_not(shown[1]);
	cr_assert(shown[40]);
	memset(shown, 0, sizeof(shown));
	cr_assert_eq(peer_sums_choose(&r, "n3", 16, shown), 0);
	for (size_t i = 0; i < r.n_pairs; i++)
		cr_assert_eq(shown[i],
			     strcmp(r.nodes[r.pairs[i].taker].name, "n3") == 0);
	peer_sums_free(s);
}

Test(peer_sums, stops_at_the_largest_number_that_readers_know)
{
	const uint64_t half = PEER_SUMS_BYTES_MAX / 2 + 1;
	struct peer_sums_result r;
	struct error err = ERROR_INIT;
	struct peer_sums *s;

	cr_assert_eq(peer_sums_new(&s, &err), 0);
	for (int i = 0; i < 5; i++) {
		cr_assert_eq(peer_sums_add(s, "b", half, half), 0);
		cr_assert_eq(peer_sums_add_pair(s, "a", "b", half), 0);
	}
	cr_assert_eq(peer_sums_add(s, "c", UINT64_MAX, 1), 0);
	cr_assert_eq(peer_sums_end(s, &r), 0);
	cr_expect_eq(r.got, PEER_SUMS_BYTES_MAX);
	cr_expect_eq(r.origin, PEER_SUMS_BYTES_MAX);
	cr_expect_eq(r.nodes[r.order[0]].gave, PEER_SUMS_BYTES_MAX);
	cr_expect_eq(r.nodes[r.order[1]].got, PEER_SUMS_BYTES_MAX);
	cr_expect_eq(r.nodes[r.order[1]].origin, PEER_SUMS_BYTES_MAX);
	cr_expect_eq(r.pairs[0].bytes, PEER_SUMS_BYTES_MAX);
	peer_sums_free(s);
}

Test(peer_sums, reads_lines)
{
	static const char *const bad[] = { "", "n", " 5\n", "n 5", "n -5\n" };
	char giver[STAGE_NODE_MAX + 1];
	const char *at = "n-8.a_b 250\n1 5\n";
	int64_t bytes;

	cr_assert(peer_line_parse(&at, giver, &bytes));
	cr_expect_str_eq(giver, "n-8.a_b");
	cr_expect_eq(bytes, 250);
	cr_assert(peer_line_parse(&at, giver, &bytes));
	cr_expect_str_eq(giver, "1");
	cr_expect_eq(bytes, 5);
	cr_expect_not(peer_line_parse(&at, giver, &bytes));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		at = bad[i];
		cr_expect_not(peer_line_parse(&at, giver, &bytes), "%s",
			      bad[i]);
	}
}

Test(peer_sums, leaves_out_and_counts_what_is_past_its_bounds)
{
	struct peer_sums_result r;
	struct error err = ERROR_INIT;
	struct peer_sums *s;
	char name[16];

	cr_assert_eq(peer_sums_new(&s, &err), 0);
	for (unsigned int i = 0; i < PEER_SUMS_NODES_MAX + 3; i++) {
		(void)snprintf(name, sizeof(name), "n%u", i);
		cr_assert_eq(peer_sums_add(s, name, 1, 0), 0);
	}
	cr_assert_eq(peer_sums_add_pair(s, name, "n0", 5), 0);
	cr_assert_eq(peer_sums_end(s, &r), 0);
	cr_expect_eq(r.n_nodes, PEER_SUMS_NODES_MAX);
	cr_expect_eq(r.got, PEER_SUMS_NODES_MAX + 3);
	cr_expect_eq(r.left_out, 4);
	cr_expect_eq(r.n_pairs, 0);
	peer_sums_free(s);
}

/* Add more pairs than the table's first size, twice, and compare with a plain table. */
Test(peer_sums, adds_to_the_same_pair_after_it_has_grown)
{
	enum { N = 200 };
	static uint64_t plain[N][N];
	struct peer_sums_result r;
	struct error err = ERROR_INIT;
	struct peer_sums *s;
	char giver[16], taker[16];
	size_t n_pairs = 0;

	cr_assert_eq(peer_sums_new(&s, &err), 0);
	for (unsigned int k = 0; k < 30000; k++) {
		unsigned int g = k % N, t = k / N % 75;

		n_pairs += plain[g][t] == 0;
		plain[g][t] += k + 1;
		(void)snprintf(giver, sizeof(giver), "%u", g);
		(void)snprintf(taker, sizeof(taker), "%u", t);
		cr_assert_eq(peer_sums_add_pair(s, giver, taker, k + 1), 0);
	}
	cr_assert_eq(peer_sums_end(s, &r), 0);
	cr_assert_eq(n_pairs, 15000);
	cr_assert_eq(r.n_pairs, n_pairs);
	for (size_t i = 0; i < r.n_pairs; i++) {
		const struct peer_pair *p = &r.pairs[i];

		cr_assert_eq(p->bytes, plain[atoi(r.nodes[p->giver].name)]
					    [atoi(r.nodes[p->taker].name)]);
		cr_assert(i == 0 || r.pairs[i - 1].bytes >= p->bytes);
	}
	peer_sums_free(s);
}

Test(peer_sums, reads_the_lines_that_it_writes_and_no_others)
{
	static const char *const bad[] = { "",       "a",      "a 5",
					   " 5\n",   "a \n",   "a x\n",
					   "a -1\n", "a 5x\n", "a 5 6\n" };
	char giver[STAGE_NODE_MAX + 1], name[STAGE_NODE_MAX + 2];
	AUTO_BUF b = BUF_INIT;
	const char *at;
	int64_t bytes;

	memset(name, 'n', sizeof(name));
	name[STAGE_NODE_MAX] = '\0';
	cr_assert_eq(peer_line_format("a-1.b", 0, &b), 0);
	cr_assert_eq(peer_line_format(name, INT64_MAX, &b), 0);
	at = b.data;
	cr_assert(peer_line_parse(&at, giver, &bytes));
	cr_expect_str_eq(giver, "a-1.b");
	cr_expect_eq(bytes, 0);
	cr_assert(peer_line_parse(&at, giver, &bytes));
	cr_expect_str_eq(giver, name);
	cr_expect_eq(bytes, INT64_MAX);
	cr_expect_not(peer_line_parse(&at, giver, &bytes));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		at = bad[i];
		cr_expect_not(peer_line_parse(&at, giver, &bytes), "%s", at);
	}
	/* The name is longer than a node's may be. */
	name[STAGE_NODE_MAX] = 'n';
	buf_reset(&b);
	cr_assert_eq(buf_printf(&b, "%.*s 5\n", (int)sizeof(name), name), 0);
	at = b.data;
	cr_expect_not(peer_line_parse(&at, giver, &bytes));
}
