// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>

#include "p2p/core/slots.h"

TestSuite(slots, .timeout = 120);

static const struct slots_config usual = { .bulk = 2,
					   .demand = 1,
					   .queued = 2,
					   .waiting = 4,
					   .copies = 1,
					   .usual_ns = 1000,
					   .retry_min_ns = 10,
					   .retry_max_ns = 5000 };

static struct slots *make(const struct slots_config *cfg)
{
	struct error err = ERROR_INIT;
	struct slots *s;

	cr_assert_eq(slots_new(cfg, &s, &err), 0, "%s", err.msg);
	return s;
}

/* 0, or the time to come back; `*rc` says why. */
static int64_t add_at(struct slots *s, unsigned int peer, uint64_t what,
		      enum source_priority priority, int64_t now, int *rc)
{
	struct slot_request r = { .peer = peer,
				  .tag = what,
				  .what = what,
				  .bytes = 1 << 20,
				  .priority = priority };
	int64_t retry = 0;

	*rc = slots_add(s, &r, now, &retry);
	return *rc == 0 ? 0 : retry;
}

static int64_t add(struct slots *s, unsigned int peer, uint64_t what,
		   enum source_priority priority)
{
	int rc;

	return add_at(s, peer, what, priority, 0, &rc);
}

Test(slots, serves_so_many_at_once)
{
	AUTO(slots) s = make(&usual);
	struct slot_request r[3];

	for (uint64_t i = 0; i < 3; i++)
		cr_assert_eq(add(s, (unsigned int)i, i, SOURCE_HOT), 0);
	cr_expect(slots_next(s, 0, &r[0]));
	cr_expect(slots_next(s, 0, &r[1]));
	cr_expect_not(slots_next(s, 0, &r[2]));
	slots_done(s, &r[0], 0);
	cr_expect(slots_next(s, 0, &r[2]));
}

Test(slots, demand_has_slots_of_its_own_and_hot_goes_before_cold)
{
	AUTO(slots) s = make(&usual);
	struct slot_request r;

	cr_assert_eq(add(s, 0, 1, SOURCE_COLD), 0);
	cr_assert_eq(add(s, 1, 2, SOURCE_COLD), 0);
	cr_assert_eq(add(s, 2, 3, SOURCE_HOT), 0);
	cr_assert(slots_next(s, 0, &r));
	cr_expect_eq(r.what, 3);
	cr_assert(slots_next(s, 0, &r));
	cr_assert_eq(add(s, 3, 4, SOURCE_DEMAND), 0);
	cr_assert(slots_next(s, 0, &r));
	cr_expect_eq(r.what, 4);
	cr_expect_not(slots_next(s, 0, &r));
}

Test(slots, cold_has_few_slots_while_others_ask_for_what_is_hot)
{
	struct slots_config cfg = usual;
	struct slot_request r;
	int rc;

	cfg.bulk = 8;
	AUTO(slots) s = make(&cfg);

	cr_assert_eq(add_at(s, 0, 1, SOURCE_HOT, 5000, &rc), 0);
	cr_assert(slots_next(s, 5000, &r));
	for (unsigned int i = 0; i < 3; i++)
		cr_assert_eq(add_at(s, i, 2 + i, SOURCE_COLD, 5000, &rc), 0);
	cr_expect(slots_next(s, 5000, &r));
	cr_expect(slots_next(s, 5000, &r));
	cr_expect_not(slots_next(s, 5000, &r));
	/* Nobody asked for long. */
	cr_expect(slots_next(s, 5000 + 2 * usual.usual_ns, &r));
}

Test(slots, hot_has_three_quarters_at_most)
{
	struct slots_config cfg = usual;
	struct slot_request r;
	int rc;

	cfg.bulk = 8;
	cfg.waiting = 8;
	AUTO(slots) s = make(&cfg);

	for (unsigned int i = 0; i < 7; i++)
		cr_assert_eq(add_at(s, i, i, SOURCE_HOT, 5000, &rc), 0);
	for (unsigned int i = 0; i < 6; i++)
		cr_assert(slots_next(s, 5000, &r));
	cr_expect_not(slots_next(s, 5000, &r));
	cr_assert_eq(add_at(s, 9, 9, SOURCE_COLD, 5000, &rc), 0);
	cr_assert(slots_next(s, 5000, &r));
	cr_expect_eq(r.what, 9);
	r.what = r.peer = 0;
	r.priority = SOURCE_HOT;
	slots_done(s, &r, 5000);
	cr_assert(slots_next(s, 5000, &r));
	cr_expect_eq(r.what, 6);
}

Test(slots, peers_take_turns)
{
	AUTO(slots) s = make(&usual);
	struct slot_request r;

	cr_assert_eq(add(s, 0, 1, SOURCE_HOT), 0);
	cr_assert_eq(add(s, 0, 2, SOURCE_HOT), 0);
	cr_assert_eq(add(s, 1, 3, SOURCE_HOT), 0);
	cr_assert(slots_next(s, 0, &r));
	cr_expect_eq(r.peer, 0);
	cr_assert(slots_next(s, 0, &r));
	cr_expect_eq(r.peer, 1);
}

Test(slots, refuses_what_would_wait_too_long)
{
	AUTO(slots) s = make(&usual);

	cr_assert_eq(add(s, 0, 1, SOURCE_HOT), 0);
	cr_assert_eq(add(s, 0, 2, SOURCE_HOT), 0);
	cr_expect_geq(add(s, 0, 3, SOURCE_HOT), usual.usual_ns);
	cr_assert_eq(add(s, 1, 4, SOURCE_HOT), 0);
	cr_assert_eq(add(s, 1, 5, SOURCE_HOT), 0);
	cr_expect_geq(add(s, 2, 6, SOURCE_HOT), 2 * usual.usual_ns);
}

Test(slots, tells_when_the_piece_will_be_elsewhere)
{
	AUTO(slots) s = make(&usual);
	struct slot_request r;
	int rc;

	cr_assert_eq(add(s, 0, 1, SOURCE_HOT), 0);
	cr_assert(slots_next(s, 0, &r));
	slots_done(s, &r, 3200);
	cr_expect_eq(slots_usual_ns(s), 3200, "the first one tells");
	cr_assert_eq(add_at(s, 0, 7, SOURCE_HOT, 4000, &rc), 0);
	cr_assert(slots_next(s, 4000, &r));
	cr_expect_eq(add_at(s, 1, 7, SOURCE_HOT, 5000, &rc), 2200);
	cr_expect_eq(rc, -EALREADY);
	cr_expect_eq(add_at(s, 1, 7, SOURCE_HOT, 8000, &rc), 3200 / 16);
	cr_expect_eq(rc, -EALREADY);
	/* Who takes twice as long as others will not pass it on soon. */
	cr_expect_eq(add_at(s, 1, 7, SOURCE_HOT, 4000 + 2 * 3200 + 1, &rc), 0);
	slots_done(s, &r, 4000 + 3200 + 800);
	cr_expect_eq(slots_usual_ns(s), 3200 + 100);
}

/* Who asks when a slot is free gets it: he is to ask often, but of who is slow not
 * more often than it helps. */
Test(slots, who_finds_no_slot_comes_again_after_a_part_of_an_answer)
{
	static const int64_t took[] = { 200000000, 1600000000 };
	static const int64_t again[] = { 30000000, 100000000 };

	for (size_t k = 0; k < 2; k++) {
		struct slots_config cfg = usual;
		struct slot_request r;

		cfg.queued = 1;
		cfg.retry_max_ns = INT64_C(5000000000);
		AUTO(slots) s = make(&cfg);
		cr_assert_eq(add(s, 0, 1, SOURCE_HOT), 0);
		cr_assert(slots_next(s, 0, &r));
		slots_done(s, &r, took[k]);
		cr_assert_eq(add(s, 0, 2, SOURCE_HOT), 0);
		cr_expect_eq(add(s, 0, 3, SOURCE_HOT), again[k]);
	}
}

Test(slots, what_was_not_taken_says_nothing_of_the_time)
{
	AUTO(slots) s = make(&usual);
	struct slot_request r;

	for (int i = 0; i < 3; i++) {
		cr_assert_eq(add(s, 0, 1, SOURCE_HOT), 0);
		cr_assert(slots_next(s, 0, &r));
		slots_done(s, &r, 800);
	}
	cr_expect_eq(slots_usual_ns(s), 800);
	cr_assert_eq(add(s, 0, 1, SOURCE_HOT), 0);
	cr_assert(slots_next(s, 0, &r));
	slots_failed(s, &r);
	cr_expect_eq(slots_usual_ns(s), 800);
	/* The slot is free, and one slow taker counts as four at most. */
	cr_assert_eq(add(s, 0, 1, SOURCE_HOT), 0);
	cr_assert(slots_next(s, 0, &r));
	slots_done(s, &r, 1 << 30);
	cr_expect_eq(slots_usual_ns(s), 800 + 3 * 800 / 8);
}

Test(slots, nobody_is_told_to_come_back_in_hours)
{
	AUTO(slots) s = make(&usual);
	struct slot_request r;
	int rc;

	cr_assert_eq(add(s, 0, 1, SOURCE_HOT), 0);
	cr_assert(slots_next(s, 0, &r));
	slots_done(s, &r, INT64_C(1) << 60);
	cr_assert_eq(add(s, 0, 1, SOURCE_HOT), 0);
	cr_expect_eq(add_at(s, 1, 1, SOURCE_HOT, 0, &rc), usual.retry_max_ns);
}

Test(slots, a_piece_goes_to_one_at_a_time_but_for_demand)
{
	AUTO(slots) s = make(&usual);
	struct slot_request r;

	cr_assert_eq(add(s, 0, 7, SOURCE_HOT), 0);
	cr_expect_neq(add(s, 1, 7, SOURCE_HOT), 0);
	cr_assert(slots_next(s, 0, &r));
	cr_expect_neq(add(s, 1, 7, SOURCE_COLD), 0);
	cr_expect_eq(add(s, 1, 7, SOURCE_DEMAND), 0);
	slots_done(s, &r, 0);
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
	cr_assert(slots_next(s, 0, &r));
	cr_expect_eq(r.what, 2);
	slots_drop_peer(s, 1);
	cr_expect_not(slots_next(s, 0, &r));
}

/* Two nodes take all slots of what is hot, and read nothing. */
Test(slots, who_reads_slowly_holds_no_slot_that_others_wait_for)
{
	const int64_t late = INT64_C(2000000000);
	struct slots_config cfg = usual;
	struct slot_request held[6], r;
	int rc;

	cfg.bulk = 8;
	cfg.queued = 4;
	AUTO(slots) s = make(&cfg);

	for (unsigned int i = 0; i < 6; i++) {
		cr_assert_eq(add_at(s, i % 2, i, SOURCE_HOT, 0, &rc), 0);
		cr_assert(slots_next(s, 0, &held[i]));
	}
	cr_assert_eq(add_at(s, 2, 6, SOURCE_HOT, late - 1, &rc), 0);
	cr_expect_not(slots_next(s, late - 1, &r));
	cr_assert(slots_next(s, late, &r), "it is given up");
	cr_expect_eq(r.peer, 2);
	/* They get nothing more but demand; all others go on. */
	(void)add_at(s, 0, 7, SOURCE_HOT, late, &rc);
	cr_expect_eq(rc, -EBUSY);
	cr_expect_eq(add_at(s, 0, 7, SOURCE_DEMAND, late, &rc), 0);
	slots_done(s, &r, late);
	for (unsigned int i = 0; i < 6; i++) {
		cr_assert_eq(add_at(s, 3, 10 + i, SOURCE_HOT, late, &rc), 0);
		while (slots_next(s, late, &r))
			if (r.priority != SOURCE_DEMAND)
				cr_expect_eq(r.what, 10 + i);
	}
	/* What was taken in the end is no place too many, nor one too few. */
	for (unsigned int i = 0; i < 6; i++)
		slots_done(s, &held[i], 2 * late);
	cr_expect_eq(add_at(s, 0, 30, SOURCE_HOT, 2 * late, &rc), 0);
}

/* A dozen nodes that ask for all they may have, and read nothing. */
static void a_dozen_reads_nothing(enum source_priority priority,
				  unsigned int each)
{
	const int64_t late = INT64_C(2000000000);
	struct slots_config cfg = usual;
	struct slot_request r;
	int64_t now = 0;
	uint64_t what = 0;
	int rc;

	cfg.bulk = 8;
	cfg.demand = 4;
	cfg.queued = 4;
	cfg.waiting = 1;
	AUTO(slots) s = make(&cfg);

	for (unsigned int rogue = 0; rogue < 12; rogue++) {
		for (unsigned int i = 0; i < each; i++) {
			if (add_at(s, rogue, what++, priority, now, &rc) ||
			    !slots_next(s, now, &r)) {
				slots_drop_peer(s, rogue);
				break;
			}
		}
		now += late;
	}
	for (unsigned int i = 0; i < 100; i++) {
		cr_assert_eq(add_at(s, 99, what++, priority, now, &rc), 0, "%u",
			     i);
		cr_assert(slots_next(s, now, &r), "%u", i);
		cr_expect_eq(r.peer, 99);
		slots_done(s, &r, now + 100);
		now += 100;
	}
}

Test(slots, a_dozen_who_read_nothing_leave_slots_to_others)
{
	a_dozen_reads_nothing(SOURCE_HOT, 6);
	a_dozen_reads_nothing(SOURCE_COLD, 6);
	a_dozen_reads_nothing(SOURCE_DEMAND, 3);
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
	cfg = usual;
	cfg.retry_max_ns = cfg.retry_min_ns - 1;
	cr_expect_eq(slots_new(&cfg, &s, NULL), -EINVAL);
}
