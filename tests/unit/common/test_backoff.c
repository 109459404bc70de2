// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>

#include "common/backoff.h"
#include "common/cleanup.h"
#include "common/clock.h"

TestSuite(backoff, .timeout = 60);

#define ROUNDS 200 /* repetitions, as pauses are random */

static const struct backoff backoff = { .first_ms = 100, .most_ms = 1000 };

Test(backoff, each_pause_may_be_twice_as_long_up_to_a_bound)
{
	static const int64_t most_ms[] = { 100, 200, 400, 800, 1000, 1000 };

	for (unsigned int n = 1; n <= ARRAY_SIZE(most_ms); n++) {
		int64_t least = INT64_MAX, most = 0;

		for (int k = 0; k < ROUNDS; k++) {
			int64_t ns = backoff_ns(&backoff, n, 0);

			least = ns < least ? ns : least;
			most = ns > most ? ns : most;
		}
		cr_expect_geq(least, most_ms[n - 1] * NS_PER_MS / 2);
		cr_expect_leq(most, most_ms[n - 1] * NS_PER_MS);
		cr_expect_gt(most, least, "nodes come back together");
	}
	cr_expect_leq(backoff_ns(&backoff, UINT32_MAX, 0), 1000 * NS_PER_MS);
}

Test(backoff, the_servers_wish_is_the_least)
{
	for (int k = 0; k < ROUNDS; k++) {
		int64_t ns = backoff_ns(&backoff, 1, 5000);

		cr_expect_geq(ns, 5000 * NS_PER_MS);
		cr_expect_leq(ns, 5100 * NS_PER_MS);
	}
}

static enum pace_level always_stop(struct pace *p)
{
	return PACE_STOP;
}

Test(backoff, a_wait_lasts_until_its_time_or_until_it_is_not_wanted)
{
	struct pace unwanted = { .level = always_stop };
	int64_t until = clock_now_ns() + 20 * NS_PER_MS;

	cr_expect_eq(backoff_wait(until, NULL), 0);
	cr_expect_geq(clock_now_ns(), until);
	cr_expect_eq(backoff_wait(until, &unwanted), 0, "it is over");
	until = clock_now_ns() + 3600 * NS_PER_S;
	cr_expect_eq(backoff_wait(until, &unwanted), -ECANCELED);
}
