// SPDX-License-Identifier: Apache-2.0
/* Who is given a lease, and who has to wait for another. */
#include "tests/unit/p2p/tracker_bench.h"

TestSuite(tracker_leases, .timeout = 120);

Test(tracker_leases, first_askers_get_different_runs, .init = begin_default,
     .fini = end)
{
	bool seen[PIECES] = { false };

	/* All know each other first: then each gets its share. */
	for (unsigned int n = 0; n < 32; n++) {
		from(n, "z", 1);
		hear();
	}
	for (unsigned int n = 0; n < 7; n++) {
		from(n, "z", 1);
		wants(0, 256, 128 * KIB);
		hear();
		cr_assert_eq(b.a.n_granted, 2, "%zu", b.a.n_granted);
		cr_expect(b.a.is_full, "it has its share");
		for (size_t i = 0; i < b.a.n_granted; i++) {
			cr_expect(!seen[b.a.granted[i]]);
			seen[b.a.granted[i]] = true;
			if (i > 0)
				cr_expect_eq(b.a.granted[i],
					     b.a.granted[i - 1] + 1);
		}
	}
}

Test(tracker_leases, demand_comes_before_bulk_and_beside_a_full_window,
     .init = begin_default, .fini = end)
{
	unsigned int given = 0;

	for (unsigned int n = 10; n < 20; n++) {
		from(n, "z", 1);
		wants(0, 256, 256 * KIB);
		hear();
		given += (unsigned int)b.a.n_granted;
	}
	cr_assert_eq(given, 7, "seven eighths of the first window");
	from(2, "z", 1);
	wants(100, 2, 256 * KIB);
	hear();
	cr_expect_eq(b.a.n_granted, 0);
	cr_expect_gt(b.a.retry_ns, 0);
	b.c.n_demand = 1;
	hear();
	cr_assert_eq(b.a.n_granted, 1);
	cr_expect_eq(b.a.granted[0], 100);
}

Test(tracker_leases, one_holder_in_a_zone_and_demand_in_each,
     .init = begin_default, .fini = end)
{
	from(1, "a", 1);
	wants(7, 1, MIB);
	b.c.n_demand = 1;
	hear();
	cr_assert(is_granted(7));
	from(2, "a", 1);
	wants(7, 1, MIB);
	b.c.n_demand = 1;
	hear();
	cr_expect(!is_granted(7));
	from(3, "b", 1);
	wants(7, 1, MIB);
	hear();
	cr_expect(!is_granted(7), "bulk waits for the other zone's");
	b.c.n_demand = 1;
	hear();
	cr_expect(is_granted(7));
}

Test(tracker_leases, a_dead_holder_blocks_a_piece_no_longer_than_its_lease,
     .init = begin_default, .fini = end)
{
	int64_t ttl;

	from(1, "z", 1);
	wants(7, 1, MIB);
	hear();
	cr_assert(is_granted(7));
	ttl = b.a.ttl_ns;
	cr_expect_geq(ttl, tracker_config_default.lease_min_ns);
	b.now += ttl - 1;
	from(2, "z", 1);
	wants(7, 1, MIB);
	hear();
	cr_expect(!is_granted(7));
	b.now += 1;
	hear();
	cr_expect(is_granted(7));
}

Test(tracker_leases, what_was_read_is_not_leased_while_its_reader_is_there,
     .init = begin_default, .fini = end)
{
	static const uint32_t seven[] = { 7 };

	from(1, "z", 1);
	wants(7, 1, MIB);
	hear();
	b.now += 10 * MS;
	from(1, "z", 1);
	report(true, seven, 1);

	from(2, "other", 1);
	wants(7, 1, MIB);
	b.c.wants_members = true;
	b.c.n_demand = 1;
	hear();
	cr_expect(!is_granted(7));
	cr_assert_geq(b.a.n_members, 1);
	cr_expect_str_eq(b.a.members[0].node, "n1");

	/* Demand believes it shorter than bulk. */
	b.now += tracker_config_default.demand_done_ns;
	b.c.n_demand = 0;
	hear();
	cr_expect(!is_granted(7));
	b.c.n_demand = 1;
	hear();
	cr_expect(is_granted(7));
}

/* Does node `n` get the piece, with a reader that waits for it or without one? */
static bool gets(unsigned int n, uint32_t piece, bool demand)
{
	from(n, "z", 1);
	wants(piece, 1, KIB);
	b.c.n_demand = demand;
	hear();
	return is_granted(piece);
}

Test(tracker_leases, what_was_never_leased_is_believed_once_and_for_bulk,
     .init = begin_default, .fini = end)
{
	static const uint32_t some[] = { 7, 8 };
	const int64_t believed = tracker_config_default.demand_done_ns;

	from(1, "z", 1);
	report(true, some, 2);
	cr_expect(!gets(2, 7, false));
	cr_expect(gets(2, 8, true), "no reader waits for it");
	/* It says so again and again, and so does another one. */
	b.now += believed / 2;
	from(1, "z", 1);
	report(true, some, 1);
	from(3, "z", 1);
	report(true, some, 1);
	cr_expect(!gets(2, 7, false));
	b.now += believed / 2;
	from(1, "z", 1);
	report(true, some, 1);
	from(3, "z", 1);
	report(true, some, 1);
	cr_expect(gets(4, 7, false));
}

Test(tracker_leases, what_was_never_leased_replaces_no_reader_who_counts,
     .init = begin_default, .fini = end)
{
	static const uint32_t seven[] = { 7 };
	const struct tracker_config *cfg = &tracker_config_default;

	cr_assert(gets(1, 7, false));
	b.now += 10 * MS;
	from(1, "z", 1);
	report(true, seven, 1);
	/* One that says so, and leaves, takes nothing from the others. */
	from(2, "z", 1);
	report(true, seven, 1);
	cr_expect(!gets(3, 7, true));
	from(2, "z", 1)->leaving = true;
	hear();
	cr_expect(!gets(3, 7, false));
	/* Nor does the reader count for longer than it did. */
	for (int64_t at = 0; at < cfg->done_ns; at += 5 * SECOND) {
		b.now += 5 * SECOND;
		from(1, "z", 1);
		report(true, seven, 1);
	}
	b.now += cfg->demand_done_ns;
	cr_expect(gets(3, 7, false));
}

Test(tracker_leases, a_reader_that_leaves_or_lost_it_frees_the_piece,
     .init = begin_default, .fini = end)
{
	static const uint32_t some[] = { 7, 8 };

	from(1, "z", 1);
	wants(7, 2, KIB);
	hear();
	b.now += 10 * MS;
	from(1, "z", 1);
	report(true, some, 2);
	/* It asks itself for what it had. */
	from(1, "z", 1);
	wants(8, 1, MIB);
	hear();
	cr_expect(is_granted(8));
	from(2, "z", 1);
	wants(7, 2, MIB);
	hear();
	cr_expect_eq(b.a.n_granted, 0);
	from(1, "z", 1);
	b.c.leaving = true;
	hear();
	from(2, "z", 1);
	wants(7, 2, KIB);
	hear();
	cr_expect_eq(b.a.n_granted, 2);
}

static void reads_one(unsigned int node, uint32_t piece, int64_t ns)
{
	from(node, "z", 1);
	wants(piece, 1, 128 * KIB);
	hear();
	cr_assert(is_granted(piece));
	b.now += ns;
	from(node, "z", 1);
	report(true, &piece, 1);
}

/* Node 1, many times slower than node 2, is given piece 5. */
static void slow_one_holds(void)
{
	for (uint32_t k = 0; k < 30; k++)
		reads_one(2, 100 + k, 60 * MS);
	reads_one(1, 200, 900 * MS);
	from(1, "z", 1);
	wants(5, 1, MIB);
	hear();
	cr_assert(is_granted(5));
	cr_assert_gt(b.a.ttl_ns, 8 * SECOND, "%g s", (double)b.a.ttl_ns / 1e9);
}

/* The last pieces are not waited for as long as one slow node needs. */
Test(tracker_leases, who_finds_nothing_else_gets_what_is_late,
     .init = begin_default, .fini = end)
{
	slow_one_holds();
	b.now += SECOND;
	from(2, "z", 1);
	wants(5, 1, MIB);
	hear();
	cr_expect_not(is_granted(5), "it is in time");
	b.now += 6 * SECOND;
	from(2, "z", 1);
	wants(5, 1, 128 * KIB);
	hear();
	cr_expect_not(is_granted(5), "it may be that all need so long");
	reads_one(2, 300, 60 * MS);
	from(2, "z", 1);
	wants(5, 2, 128 * KIB);
	hear();
	cr_expect_not(is_granted(5), "there is another one for it");
	cr_expect(is_granted(6));
	from(3, "z", 1);
	wants(5, 2, 128 * KIB);
	hear();
	cr_expect(is_granted(5));
	cr_expect_not(is_granted(6));
}

Test(tracker_leases, what_is_late_is_given_to_who_has_a_reader_for_it,
     .init = begin_default, .fini = end)
{
	slow_one_holds();
	b.now += 7 * SECOND;
	from(2, "z", 1);
	wants(5, 1, 128 * KIB);
	b.c.n_demand = 1;
	hear();
	cr_expect_not(is_granted(5), "it may be that all need so long");
	reads_one(2, 300, 60 * MS);
	from(2, "z", 1);
	wants(5, 1, 128 * KIB);
	b.c.n_demand = 1;
	hear();
	cr_expect(is_granted(5));
	from(3, "z", 1);
	wants(5, 1, 128 * KIB);
	b.c.n_demand = 1;
	hear();
	cr_expect_not(is_granted(5), "that one is in time");
}

/* What a lease holds is asked for again when that is over, if not before; in another
 * zone when half of it is.  Up to a quarter later by chance. */
Test(tracker_leases, who_is_refused_comes_again_when_it_is_free,
     .init = begin_default, .fini = end)
{
	int64_t ttl, begun = b.now;

	from(1, "z", 1);
	wants(5, 1, 4 * MIB);
	hear();
	cr_assert(is_granted(5));
	ttl = b.a.ttl_ns;
	for (unsigned int k = 0; k < 20; k++) {
		b.now = begun + ttl / 4;
		from(100 + k, "y", 1);
		wants(5, 1, 4 * MIB);
		hear();
		cr_assert_eq(b.a.n_granted, 0);
		cr_expect_leq(b.a.retry_ns, ttl / 4 + ttl / 16);
	}
	for (unsigned int k = 0; k < 20; k++) {
		b.now = begun + ttl / 2;
		from(200 + k, "z", 1);
		wants(5, 1, 4 * MIB);
		hear();
		cr_assert_eq(b.a.n_granted, 0);
		cr_expect_leq(b.a.retry_ns, ttl / 2 + ttl / 8);
	}
}

static int64_t retry_of_one_more_than(unsigned int n)
{
	for (unsigned int k = 0; k < n; k++) {
		from(k, "z", n);
		wants(0, 256, 128 * KIB);
		hear();
	}
	from(n, "z", n);
	wants(900, 1, 128 * KIB); /* nobody else's */
	hear();
	cr_assert_eq(b.a.n_granted, 0);
	return b.a.retry_ns;
}

/* Up to a quarter by chance is in both. */
Test(tracker_leases, of_many_each_comes_again_later, .init = begin_default,
     .fini = end)
{
	cr_expect_gt(retry_of_one_more_than(64),
		     3 * retry_of_one_more_than(20));
}

Test(tracker_leases, who_has_less_than_it_read_has_none_of_it,
     .init = begin_default, .fini = end)
{
	static const uint32_t some[] = { 7, 8 };
	struct tracker_image_info info;

	from(1, "z", 1);
	wants(7, 2, 1000);
	hear();
	b.now += 10 * MS;
	from(1, "z", 1);
	report(true, some, 2);
	from(2, "z", 1);
	wants(7, 2, 1000);
	hear();
	cr_expect_eq(b.a.n_granted, 0);
	/* Started anew, with nothing, and nobody heard it leave. */
	from(1, "z", 1);
	b.c.have = 0;
	hear();
	cr_assert(tracker_get_image(b.t, &b.c.image, &info));
	cr_expect_eq(info.done, 0);
	from(2, "z", 1);
	wants(7, 2, 1000);
	hear();
	cr_expect_eq(b.a.n_granted, 2);
}

Test(tracker_leases, a_lost_answer_is_given_again_but_not_longer,
     .init = begin_default, .fini = end)
{
	int64_t ttl;

	from(1, "z", 1);
	wants(7, 1, MIB);
	hear();
	ttl = b.a.ttl_ns;
	b.now += 100 * MS;
	hear();
	cr_assert_eq(b.a.n_granted, 1);
	cr_expect_eq(b.a.ttl_ns, ttl - 100 * MS);
	/* Named twice in one call: still once. */
	b.want[1] = 7;
	b.bytes[1] = MIB;
	b.c.n_want = 2;
	hear();
	cr_expect_eq(b.a.n_granted, 1);
}
