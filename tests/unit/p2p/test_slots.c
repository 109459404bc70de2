// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>

#include "p2p/slots.h"

TestSuite(slots, .timeout = 20);

static const struct slots_config usual = { .bulk = 2,
					   .demand = 1,
					   .queued = 2,
					   .waiting = 4,
					   .copies = 1,
					   .retry_ns = 1000 };

static struct slots *make(const struct slots_config *cfg)
{
	struct error err = ERROR_INIT;
	struct slots *s;

	cr_assert_eq(slots_new(cfg, &s, &err), 0, "%s", err.msg);
	return s;
}

/* 0, or the time to come back. */
static int64_t add(struct slots *s, unsigned int peer, uint64_t what,
		   enum source_priority priority)
{
	struct slot_request r = { .peer = peer,
				  .tag = what,
				  .what = what,
				  .bytes = 1 << 20,
				  .priority = priority };
	int64_t retry = 0;

	return slots_add(s, &r, &retry) == 0 ? 0 : retry;
}

Test(slots, serves_so_many_at_once)
{
	AUTO(slots) s = make(&usual);
	struct slot_request r[3];

	for (uint64_t i = 0; i < 3; i++)
		cr_assert_eq(add(s, (unsigned int)i, i, SOURCE_HOT), 0);
	cr_expect(slots_next(s, &r[0]));
	cr_expect(slots_next(s, &r[1]));
	cr_expect_not(slots_next(s, &r[2]));
	slots_done(s, &r[0]);
	cr_expect(slots_next(s, &r[2]));
}

Test(slots, demand_has_slots_of_its_own_and_hot_goes_before_cold)
{
	AUTO(slots) s = make(&usual);
	struct slot_request r;

	cr_assert_eq(add(s, 0, 1, SOURCE_COLD), 0);
	cr_assert_eq(add(s, 1, 2, SOURCE_COLD), 0);
	cr_assert_eq(add(s, 2, 3, SOURCE_HOT), 0);
	cr_assert(slots_next(s, &r));
	cr_expect_eq(r.what, 3);
	cr_assert(slots_next(s, &r));
	cr_assert_eq(add(s, 3, 4, SOURCE_DEMAND), 0);
	cr_assert(slots_next(s, &r));
	cr_expect_eq(r.what, 4);
	cr_expect_not(slots_next(s, &r));
}

Test(slots, peers_take_turns)
{
	AUTO(slots) s = make(&usual);
	struct slot_request r;

	cr_assert_eq(add(s, 0, 1, SOURCE_HOT), 0);
	cr_assert_eq(add(s, 0, 2, SOURCE_HOT), 0);
	cr_assert_eq(add(s, 1, 3, SOURCE_HOT), 0);
	cr_assert(slots_next(s, &r));
	cr_expect_eq(r.peer, 0);
	cr_assert(slots_next(s, &r));
	cr_expect_eq(r.peer, 1);
}

Test(slots, refuses_what_would_wait_too_long)
{
	AUTO(slots) s = make(&usual);

	cr_assert_eq(add(s, 0, 1, SOURCE_HOT), 0);
	cr_assert_eq(add(s, 0, 2, SOURCE_HOT), 0);
	cr_expect_geq(add(s, 0, 3, SOURCE_HOT), usual.retry_ns);
	cr_assert_eq(add(s, 1, 4, SOURCE_HOT), 0);
	cr_assert_eq(add(s, 1, 5, SOURCE_HOT), 0);
	cr_expect_geq(add(s, 2, 6, SOURCE_HOT), usual.retry_ns);
	slots_set_retry(s, 10 * usual.retry_ns);
	cr_expect_geq(add(s, 2, 6, SOURCE_HOT), 10 * usual.retry_ns);
}

Test(slots, a_piece_goes_to_one_at_a_time_but_for_demand)
{
	AUTO(slots) s = make(&usual);
	struct slot_request r;

	cr_assert_eq(add(s, 0, 7, SOURCE_HOT), 0);
	cr_expect_neq(add(s, 1, 7, SOURCE_HOT), 0);
	cr_assert(slots_next(s, &r));
	cr_expect_neq(add(s, 1, 7, SOURCE_COLD), 0);
	cr_expect_eq(add(s, 1, 7, SOURCE_DEMAND), 0);
	slots_done(s, &r);
	cr_expect_eq(add(s, 1, 7, SOURCE_HOT), 0);
}

Test(slots, forgets_what_is_dropped)
{
	AUTO(slots) s = make(&usual);
	struct slot_request r;

	cr_assert_eq(add(s, 0, 1, SOURCE_HOT), 0);
	cr_assert_eq(add(s, 0, 2, SOURCE_HOT), 0);
	cr_assert_eq(add(s, 1, 3, SOURCE_HOT), 0);
	slots_drop(s, 0, 1);
	cr_assert(slots_next(s, &r));
	cr_expect_eq(r.what, 2);
	slots_drop_peer(s, 1);
	cr_expect_not(slots_next(s, &r));
}

Test(slots, refuses_limits_that_cannot_be)
{
	struct slots_config cfg = usual;
	struct slots *s;

	cfg.copies = 0;
	cr_expect_eq(slots_new(&cfg, &s, NULL), -EINVAL);
	cfg = usual;
	cfg.bulk = SLOTS_MAX + 1;
	cr_expect_eq(slots_new(&cfg, &s, NULL), -EINVAL);
}
