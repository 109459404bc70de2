// SPDX-License-Identifier: Apache-2.0
/* Tests the limits of pods and namespaces, with a stopped clock. */
#include "profiler/follow/allowance.h"

#include <criterion/criterion.h>

#include "common/clock.h"
#include "tests/unit/test_clock.h"

TestSuite(allowance, .timeout = 60, .init = test_clock_hold);

#define HOUR_NS (3600 * NS_PER_S)

static struct allowance a;

/* Offer `n` events; returns how many are accepted. */
static uint64_t say(const struct allowance_of_log *l, uint64_t n)
{
	uint64_t taken = 0;

	while (n-- > 0)
		taken += allowance_take(&a, l, true) != ALLOWANCE_NONE;
	return taken;
}

static struct allowance_of_log log_of(const char *pod, const char *namespace)
{
	struct allowance_of_log l = { .pod = NULL };

	cr_assert(allowance_add_log(&a, pod, namespace, &l));
	return l;
}

Test(allowance, a_pod_has_its_bound_once_however_many_logs_it_has)
{
	struct allowance_of_log one, two;

	a.cfg = (struct allowance_config){ .node_events = 1000,
					   .pod_events = 10,
					   .logs_max = 10 };
	one = log_of("a_pod_1", "a");
	two = log_of("a_pod_1", "a");
	cr_expect_eq(say(&one, 8), 8);
	cr_expect_eq(say(&two, 8), 2);
	/* A log that disappears and returns gets no new allowance. */
	allowance_drop_log(&a, &one);
	allowance_drop_log(&a, &two);
	one = log_of("a_pod_1", "a");
	cr_expect_eq(say(&one, 8), 0);
	cr_expect_eq(a.told, 1);
	test_clock_step(HOUR_NS);
	cr_expect_eq(say(&one, 18), 10);
	cr_expect_eq(a.told, 2);
	allowance_fini(&a);
}

Test(allowance, whoever_comes_last_has_something)
{
	struct allowance_of_log evil[3], good, none = { .pod = NULL };

	a.cfg = (struct allowance_config){ .node_events = 100,
					   .pod_events = 100,
					   .logs_max = 100 };
	evil[0] = log_of("evil_a_1", "evil");
	evil[1] = log_of("evil_b_2", "evil");
	evil[2] = log_of("other_c_3", "other");
	good = log_of("good_d_4", "good");
	cr_expect_eq(say(&evil[0], 1000), 50);
	cr_expect_eq(say(&evil[1], 1000), 0);
	cr_expect_eq(say(&evil[2], 1000), 25);
	cr_expect_eq(say(&good, 10), 10);
	/* Events of the node itself are accepted, and count. */
	cr_expect_eq(say(&none, 100), 100);
	cr_expect_eq(say(&good, 10), 0);
	allowance_fini(&a);
}

Test(allowance, a_namespace_does_not_fill_the_list_of_logs)
{
	struct allowance_of_log l;
	size_t n = 0;

	a.cfg = (struct allowance_config){ .node_events = 100,
					   .pod_events = 100,
					   .logs_max = 100 };
	while (n < 200 && allowance_add_log(&a, "evil_a_1", "evil", &l))
		n++;
	cr_expect_eq(n, 50);
	cr_expect_eq(a.told, 1);
	cr_expect(allowance_add_log(&a, "good_d_4", "good", &l));
	/* A dropped log makes room for another. */
	allowance_drop_log(&a, &l);
	cr_expect_eq(a.logs, 50);
	allowance_fini(&a);
}

Test(allowance, what_is_said_beyond_the_first_goes_later_or_is_left_out)
{
	struct allowance_of_log evil, good;

	a.cfg = (struct allowance_config){ .node_events = 100000,
					   .pod_events = 100000,
					   .logs_max = 100 };
	evil = log_of("evil_a_1", "evil");
	good = log_of("good_d_4", "good");
	for (uint64_t i = 0; i < ALLOWANCE_FIRST_EVENTS; i++)
		cr_assert_eq(allowance_take(&a, &evil, false), ALLOWANCE_FIRST);
	cr_expect_eq(allowance_take(&a, &evil, true), ALLOWANCE_LATER);
	cr_expect_eq(allowance_take(&a, &evil, false), ALLOWANCE_NONE);
	cr_expect_eq(allowance_take(&a, &good, false), ALLOWANCE_FIRST);
	allowance_fini(&a);
}
