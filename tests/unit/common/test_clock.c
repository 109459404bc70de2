// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include "common/clock.h"

TestSuite(clock, .timeout = 60);

Test(clock, has_the_last_time_there_is_for_later_ones)
{
	const int64_t last = INT64_MAX / NS_PER_S;

	cr_expect_eq(clock_ns_of((struct timespec){ last, 1 }),
		     last * NS_PER_S + 1);
	cr_expect_eq(clock_ns_of((struct timespec){ last, 999999999 }),
		     INT64_MAX);
	cr_expect_eq(clock_ns_of((struct timespec){ last + 1, 0 }), INT64_MAX);
	cr_expect_eq(clock_ns_of((struct timespec){ INT64_MAX, 0 }), INT64_MAX);
	cr_expect_eq(clock_ns_of((struct timespec){ INT64_MIN, 0 }), INT64_MIN);
	cr_expect_eq(clock_scale(INT64_MAX / 1000, NS_PER_MS, 0), INT64_MAX);
}

Test(clock, has_nanoseconds_that_are_not_negative)
{
	static const int64_t rows[] = { 0, 7, -1, -NS_PER_S, INT64_MAX };

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct timespec t = clock_timespec(rows[i]);

		cr_expect(t.tv_nsec >= 0 && t.tv_nsec < NS_PER_S, "%zu", i);
		cr_expect_eq(clock_ns_of(t), rows[i], "%zu", i);
	}
}
