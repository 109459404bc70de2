// SPDX-License-Identifier: Apache-2.0
/* What a thread was told that is not there. */
#include <criterion/criterion.h>

#include "ckpt-fuse/mount/absent.h"

#define ME 70
#define OTHER 71
#define NOW (INT64_C(1000) * NS_PER_S)

Test(absent, a_name_is_the_last_that_the_thread_was_told_of_and_once)
{
	struct absent_names a;

	absent_init(&a);
	cr_expect_not(absent_take(&a, ME, "d/f", NOW));
	absent_note(&a, ME, "d/f", NOW);
	cr_expect_not(absent_take(&a, OTHER, "d/f", NOW));
	cr_expect_not(absent_take(&a, ME, "d/g", NOW));
	cr_expect(absent_take(&a, ME, "d/f", NOW));
	cr_expect_not(absent_take(&a, ME, "d/f", NOW));
	absent_note(&a, ME, "d/f", NOW);
	absent_note(&a, ME, "d/g", NOW);
	cr_expect_not(absent_take(&a, ME, "d/f", NOW));
	absent_note(&a, ME, NULL, NOW);
	cr_expect_not(absent_take(&a, ME, "d/g", NOW));
	absent_note(&a, ME, "d/f", NOW);
	cr_expect_not(absent_take(&a, ME, "d/f", NOW + ABSENT_NS));
	absent_fini(&a);
}

Test(absent, threads_that_share_a_place_are_not_taken_for_each_other)
{
	struct absent_names a;

	absent_init(&a);
	absent_note(&a, ME, "f", NOW);
	absent_note(&a, ME + ABSENT_MAX, NULL, NOW);
	cr_expect_not(absent_take(&a, ME + ABSENT_MAX, "f", NOW));
	cr_expect(absent_take(&a, ME, "f", NOW));
	absent_note(&a, ME, "f", NOW);
	absent_note(&a, ME + ABSENT_MAX, "f", NOW);
	cr_expect_not(absent_take(&a, ME, "f", NOW));
	/* Processes that are not seen are all the same one. */
	absent_note(&a, 0, "f", NOW);
	cr_expect_not(absent_take(&a, 0, "f", NOW));
	absent_fini(&a);
}
