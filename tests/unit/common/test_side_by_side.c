// SPDX-License-Identifier: Apache-2.0
#include "common/side_by_side.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

TestSuite(side_by_side, .timeout = 60);

static int count_index(void *arg, unsigned int index, struct error *err)
{
	atomic_uint *calls = arg;

	atomic_fetch_add(&calls[index], 1);
	return 0;
}

Test(side_by_side, calls_with_each_index_once)
{
	static const unsigned int numbers[] = { 0, 1, 2, 7, SIDES_MAX };

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		atomic_uint calls[SIDES_MAX + 1] = { 0 };
		struct error err = ERROR_INIT;

		cr_expect_eq(side_by_side(numbers[i], count_index, calls, &err),
			     0);
		for (unsigned int k = 0; k <= SIDES_MAX; k++)
			cr_expect_eq(calls[k], k < numbers[i],
				     "%u of %u: %u times", k, numbers[i],
				     calls[k]);
	}
}

Test(side_by_side, has_a_bound)
{
	atomic_uint calls[SIDES_MAX + 1] = { 0 };
	struct error err = ERROR_INIT;

	cr_expect_eq(side_by_side(SIDES_MAX + 1, count_index, calls, &err),
		     -EINVAL);
	cr_expect_eq(err.code, EINVAL);
	cr_expect_eq(calls[0], 0);
}

/* Wait until all threads have come, which needs them to run in parallel. */
static int meet(void *arg, unsigned int index, struct error *err)
{
	(void)pthread_barrier_wait(arg);
	return 0;
}

Test(side_by_side, has_all_of_them_at_a_time)
{
	pthread_barrier_t barrier;

	cr_assert_eq(pthread_barrier_init(&barrier, NULL, 16), 0);
	cr_expect_eq(side_by_side(16, meet, &barrier, NULL), 0);
	pthread_barrier_destroy(&barrier);
}

struct order {
	atomic_uint calls;
	unsigned int fails; /* index of the failing call; UINT_MAX: all fail */
};

static int fail_chosen_call(void *arg, unsigned int index, struct error *err)
{
	struct order *o = arg;

	atomic_fetch_add(&o->calls, 1);
	if (o->fails != UINT_MAX && index != o->fails)
		return 0;
	return error_set(err, index % 2 ? EIO : ENOSPC, "number %u", index);
}

Test(side_by_side, tells_of_a_failure_when_all_are_done)
{
	for (unsigned int i = 0; i < 9; i++) {
		struct order o = { .fails = i };
		struct error err = ERROR_INIT;
		char want[32];

		(void)snprintf(want, sizeof(want), "number %u", i);
		cr_expect_eq(side_by_side(9, fail_chosen_call, &o, &err),
			     i % 2 ? -EIO : -ENOSPC);
		cr_expect_str_eq(err.msg, want);
		cr_expect_eq(o.calls, 9);
	}
}

/* If several calls fail, code and message must be of the same call. */
Test(side_by_side, code_and_message_are_of_the_same_one)
{
	for (unsigned int i = 0; i < 50; i++) {
		struct order o = { .fails = UINT_MAX };
		struct error err = ERROR_INIT;
		unsigned int number = 99;
		int rc = side_by_side(8, fail_chosen_call, &o, &err);

		cr_assert_eq(sscanf(err.msg, "number %u", &number), 1);
		cr_expect_lt(number, 8);
		cr_expect_eq(rc, number % 2 ? -EIO : -ENOSPC);
		cr_expect_eq(err.code, -rc);
	}
}

Test(side_by_side, needs_nobody_who_wants_the_message)
{
	struct order o = { .fails = 3 };

	cr_expect_eq(side_by_side(5, fail_chosen_call, &o, NULL), -EIO);
}
