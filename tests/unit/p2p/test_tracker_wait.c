// SPDX-License-Identifier: Apache-2.0
/* A reader waits for what others are said to read, but no longer than a while. */
#include "tests/unit/p2p/tracker_bench.h"

TestSuite(tracker_wait, .timeout = 120);

#define PIECE 5u
#define WAITED (&tracker_config_default)->demand_done_ns
/* Up to a quarter later by chance. */
#define SOON (WAITED + WAITED / 4)

static const uint32_t the_piece[] = { PIECE };

static bool asks(unsigned int n, bool demand)
{
	from(n, "z", 1);
	wants(PIECE, 1, 64 * KIB);
	b.c.n_demand = demand;
	hear();
	return is_granted(PIECE);
}

/* What somebody does each 5 ms who wants nobody else to read the piece. */
typedef void (*liar)(void);

/* Node 1 has a reader for the piece, and asks again when it is told to.  Until it is
 * given the lease; `most`: it was not. */
static int64_t waits_beside(liar lies, int64_t most)
{
	int64_t begun = b.now, next = b.now + 100 * MS;

	from(1, "z", 1);
	hear();
	for (; b.now - begun < most; b.now += 5 * MS) {
		lies();
		if (b.now < next)
			continue;
		if (asks(1, true))
			return b.now - begun;
		next = b.now + b.a.retry_ns;
	}
	return most;
}

static void holds(void)
{
	(void)asks(9, true);
}

static void holds_and_fails(void)
{
	(void)asks(9, true);
	from(9, "z", 1);
	report(false, the_piece, 1);
	(void)asks(9, true);
}

static void reads_and_loses(void)
{
	(void)asks(9, true);
	from(9, "z", 1);
	report(true, the_piece, 1);
}

static void leaves_and_comes_again(void)
{
	if (!asks(9, true))
		return;
	from(9, "z", 1)->leaving = true;
	hear();
	(void)asks(9, true);
}

/* Two that take turns. */
static void two_hold(void)
{
	static unsigned int n;

	(void)asks(8 + n % 2, true);
	from(8 + n % 2, "z", 1);
	report(n % 3 == 0, the_piece, 1);
	(void)asks(8 + ++n % 2, true);
}

static void reports_without_a_lease(void)
{
	from(9, "z", 1);
	report(true, the_piece, 1);
}

/* With what the answer before told to wait, and the next that comes too soon. */
#define IN_THE_END (100 * MS + WAITED + SOON)

Test(tracker_wait, who_lets_a_lease_run_out_comes_after_a_reader,
     .init = begin_default, .fini = end)
{
	const int64_t lease = tracker_config_default.lease_min_ns;

	cr_expect_leq(waits_beside(holds, 60 * SECOND), lease + lease / 2);
}

Test(tracker_wait, who_fails_again_and_again_comes_after_a_reader,
     .init = begin_default, .fini = end)
{
	cr_expect_leq(waits_beside(holds_and_fails, 60 * SECOND), IN_THE_END);
}

Test(tracker_wait, a_name_is_known_when_it_comes_again, .init = begin_default,
     .fini = end)
{
	cr_expect_leq(waits_beside(leaves_and_comes_again, 60 * SECOND),
		      IN_THE_END);
}

Test(tracker_wait, who_reads_it_anew_keeps_no_reader_waiting,
     .init = begin_default, .fini = end)
{
	cr_expect_leq(waits_beside(reads_and_loses, 60 * SECOND), IN_THE_END);
}

Test(tracker_wait, nor_do_two_who_take_turns, .init = begin_default,
     .fini = end)
{
	cr_expect_leq(waits_beside(two_hold, 60 * SECOND), IN_THE_END);
}

Test(tracker_wait, who_has_read_nothing_keeps_no_reader_waiting,
     .init = begin_default, .fini = end)
{
	cr_expect_leq(waits_beside(reports_without_a_lease, 60 * SECOND),
		      100 * MS);
}

Test(tracker_wait, one_failure_is_none_of_these, .init = begin_default,
     .fini = end)
{
	cr_assert(asks(1, true));
	cr_assert_not(asks(2, true));
	from(1, "z", 1);
	report(false, the_piece, 1);
	cr_expect(asks(1, true));
}

Test(tracker_wait, who_comes_after_a_reader_has_it_when_no_reader_asks,
     .init = begin_default, .fini = end)
{
	int64_t ttl;

	cr_assert(asks(1, true));
	ttl = b.a.ttl_ns;
	cr_assert_not(asks(2, true));
	b.now += ttl;
	cr_expect_not(asks(1, true), "its lease ran out, and another waits");
	cr_expect_gt(b.a.retry_ns, 0);
	b.now += 2 * tracker_config_default.interval_ns - ttl;
	cr_expect(asks(1, true));
}

Test(tracker_wait, a_reader_that_asked_once_has_not_waited,
     .init = begin_default, .fini = end)
{
	cr_assert(asks(1, true));
	b.now += 10 * MS;
	from(1, "z", 1);
	report(true, the_piece, 1);
	cr_assert_not(asks(2, true));
	/* It came from there; node 3 reads it anew, much later. */
	for (int k = 0; k < 3; k++) {
		b.now += 2 * SECOND;
		from(1, "z", 1);
		hear();
	}
	cr_assert(asks(3, true));
	cr_expect_not(asks(2, true));
}

Test(tracker_wait, bulk_waits_as_before, .init = begin_default, .fini = end)
{
	cr_assert(asks(1, true));
	b.now += 10 * MS;
	from(1, "z", 1);
	report(true, the_piece, 1);
	for (int k = 0; k < 20; k++) {
		from(1, "z", 1);
		hear();
		cr_assert_not(asks(2, false));
		b.now += SECOND;
	}
}
