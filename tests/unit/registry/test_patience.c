// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include "registry/patience.h"

TestSuite(patience, .timeout = 120);

#define SECOND INT64_C(1000000000)

Test(patience, a_registry_that_hangs_is_asked_by_one_at_a_time)
{
	struct patience p = { .n_asking = 0 };
	int64_t now = 7 * SECOND;

	for (int k = 0; k < 8; k++)
		cr_assert(patience_begin(&p, now));
	for (int k = 0; k < 8; k++)
		patience_end(&p, now, false);
	cr_assert(patience_begin(&p, now + SECOND));
	cr_expect_not(patience_begin(&p, now + SECOND));
	cr_expect_not(patience_begin(&p, now + SECOND), "refusals are no ends");
	/* The registry answers again. */
	patience_end(&p, now + 2 * SECOND, true);
	for (int k = 0; k < 8; k++)
		cr_expect(patience_begin(&p, now + 2 * SECOND));
}

Test(patience, silence_is_over_after_a_while)
{
	struct patience p = { .n_asking = 0 };
	int64_t now = 7 * SECOND;

	cr_assert(patience_begin(&p, now));
	patience_end(&p, now, false);
	cr_assert(patience_begin(&p, now + 9 * SECOND));
	cr_expect_not(patience_begin(&p, now + 9 * SECOND));
	cr_expect(patience_begin(&p, now + 10 * SECOND));
}
