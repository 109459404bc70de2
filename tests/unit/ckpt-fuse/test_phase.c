// SPDX-License-Identifier: Apache-2.0
/* Tests how a mount detects phases of loading and saving. */
#include <criterion/criterion.h>

#include "ckpt-fuse/mount/phase.h"

#define QUIET 100

static void check(struct ckpt_phase_news n, int64_t begin, int64_t end,
		  uint64_t waited)
{
	cr_expect_eq(n.begin_ns, begin, "begin %jd, not %jd",
		     (intmax_t)n.begin_ns, (intmax_t)begin);
	cr_expect_eq(n.end_ns, end, "end %jd, not %jd", (intmax_t)n.end_ns,
		     (intmax_t)end);
	cr_expect_eq(n.waited_ns, waited, "waited %ju, not %ju",
		     (uintmax_t)n.waited_ns, (uintmax_t)waited);
}

Test(ckpt_phase, waits_of_calls_beside_one_another_count_once)
{
	struct ckpt_phase p;

	ckpt_phase_init(&p);
	check(ckpt_phase_look(&p, 5, QUIET), 0, 0, 0);
	ckpt_phase_enter(&p, 10);
	ckpt_phase_enter(&p, 15);
	check(ckpt_phase_look(&p, 18, QUIET), 10, 0, 0);
	ckpt_phase_leave(&p, 20);
	ckpt_phase_leave(&p, 30);
	ckpt_phase_enter(&p, 50);
	ckpt_phase_leave(&p, 55);
	check(ckpt_phase_look(&p, 154, QUIET), 0, 0, 0);
	check(ckpt_phase_look(&p, 155, QUIET), 0, 55, 25);
	/* The next call begins another phase. */
	ckpt_phase_enter(&p, 200);
	ckpt_phase_leave(&p, 201);
	check(ckpt_phase_look(&p, 400, QUIET), 200, 201, 1);
	check(ckpt_phase_look(&p, 900, QUIET), 0, 0, 0);
	ckpt_phase_fini(&p);
}

Test(ckpt_phase, a_call_that_hangs_is_no_quiet)
{
	struct ckpt_phase p;

	ckpt_phase_init(&p);
	ckpt_phase_enter(&p, 10);
	ckpt_phase_leave(&p, 20);
	ckpt_phase_enter(&p, 30);
	check(ckpt_phase_look(&p, 1000, QUIET), 10, 0, 0);
	/* The phase ends with the mount. */
	check(ckpt_phase_look(&p, 1100, 0), 0, 1100, 1080);
	check(ckpt_phase_look(&p, 1200, 0), 0, 0, 0);
	ckpt_phase_leave(&p, 1300);
	ckpt_phase_fini(&p);
}
