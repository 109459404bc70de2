// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include "registry/refusals.h"

TestSuite(refusals, .timeout = 120);

#define SECOND INT64_C(1000000000)

Test(refusals, some_of_each_minute_are_told_and_how_many_are_not)
{
	struct refusals r = { .told = 0 };
	int64_t now = 7 * SECOND;
	uint64_t untold = 99;

	for (unsigned int k = 0; k < REFUSALS_TOLD; k++) {
		cr_assert(refusals_tell(&r, now++, &untold));
		cr_expect_eq(untold, 0);
	}
	for (unsigned int k = 0; k < 1000; k++)
		cr_expect_not(refusals_tell(&r, now++, &untold));
	now = 66 * SECOND;
	cr_expect_not(refusals_tell(&r, now, &untold), "not a minute yet");
	now = 67 * SECOND;
	cr_assert(refusals_tell(&r, now, &untold));
	cr_expect_eq(untold, 1001);
	cr_assert(refusals_tell(&r, now, &untold));
	cr_expect_eq(untold, 0, "that is told once");
}
