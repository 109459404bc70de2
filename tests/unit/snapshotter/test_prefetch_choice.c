// SPDX-License-Identifier: Apache-2.0
/* Which parts of an image are prefetched, and when. */
#include <criterion/criterion.h>

#include "snapshotter/node/starts/prefetch_choice.h"

#define OFF PREFETCH_MODE_OFF
#define HOT PREFETCH_MODE_HOT
#define ALL PREFETCH_MODE_ALL

TestSuite(prefetch_choice, .timeout = 120);

static void expect(enum prefetch_mode mode, enum prefetch_event event,
		   enum prefetch_choice want)
{
	cr_expect_eq(prefetch_choose(mode, event), want, "mode %d event %d",
		     (int)mode, (int)event);
}

Test(prefetch_choice, knows_the_words_of_the_option)
{
	cr_expect_eq(prefetch_mode_of("off"), OFF);
	cr_expect_eq(prefetch_mode_of("hot"), HOT);
	cr_expect_eq(prefetch_mode_of("all"), ALL);
}

Test(prefetch_choice, nothing_begins_by_itself_when_it_is_off)
{
	expect(OFF, PREFETCH_ON_TRACE, PREFETCH_CHOICE_NOTHING);
	expect(OFF, PREFETCH_ON_TRACE_START, PREFETCH_CHOICE_NOTHING);
	expect(OFF, PREFETCH_ON_START_KNOWN, PREFETCH_CHOICE_NOTHING);
	expect(OFF, PREFETCH_ON_START_UNKNOWN, PREFETCH_CHOICE_NOTHING);
}

Test(prefetch_choice, a_trace_brings_its_hot_set_before_a_container_comes)
{
	expect(HOT, PREFETCH_ON_TRACE, PREFETCH_CHOICE_HOT);
	/* The rest is fetched at a start only: many images are prepared and never used. */
	expect(ALL, PREFETCH_ON_TRACE, PREFETCH_CHOICE_HOT);
}

Test(prefetch_choice, the_rest_comes_with_a_start_and_gives_way_to_readers)
{
	expect(ALL, PREFETCH_ON_TRACE_START, PREFETCH_CHOICE_HOT_THEN_IDLE);
	expect(ALL, PREFETCH_ON_START_KNOWN, PREFETCH_CHOICE_HOT_THEN_IDLE);
	expect(ALL, PREFETCH_ON_START_UNKNOWN, PREFETCH_CHOICE_HOT_THEN_IDLE);
	expect(HOT, PREFETCH_ON_TRACE_START, PREFETCH_CHOICE_HOT);
	expect(HOT, PREFETCH_ON_START_KNOWN, PREFETCH_CHOICE_HOT);
}

Test(prefetch_choice, without_a_trace_there_is_no_hot_set_to_begin)
{
	expect(HOT, PREFETCH_ON_START_UNKNOWN, PREFETCH_CHOICE_NOTHING);
}

Test(prefetch_choice, what_is_ordered_or_lost_comes_whatever_the_option_says)
{
	static const enum prefetch_mode modes[] = { OFF, HOT, ALL };

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		expect(modes[i], PREFETCH_ON_ORDER_HOT, PREFETCH_CHOICE_HOT);
		expect(modes[i], PREFETCH_ON_ORDER_ALL,
		       PREFETCH_CHOICE_ALL_NOW);
		expect(modes[i], PREFETCH_ON_UNPACK, PREFETCH_CHOICE_ALL_NOW);
		expect(modes[i], PREFETCH_ON_DAMAGE, PREFETCH_CHOICE_ALL_NOW);
	}
}

Test(prefetch_choice, a_restart_goes_on_with_what_was_begun)
{
	static const enum prefetch_mode modes[] = { OFF, HOT, ALL };

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		expect(modes[i], PREFETCH_ON_RESTART_HOT, PREFETCH_CHOICE_HOT);
		expect(modes[i], PREFETCH_ON_RESTART_ALL,
		       PREFETCH_CHOICE_HOT_THEN_IDLE);
	}
}
