// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include "registry/recent.h"

TestSuite(recent, .timeout = 10);

static struct recent *r;
static uint64_t age;

static int ask(const char *key, int64_t now)
{
	int value = -1;

	return recent_get(r, key, now, &value, sizeof(value), &age) ? value
								    : -1;
}

static void answer(const char *key, int64_t now, int value)
{
	recent_put(r, key, now, &value, sizeof(value), age);
}

Test(recent, remembers_an_answer_for_a_second)
{
	cr_assert_eq(recent_new(&r, NULL), 0);
	cr_expect_eq(ask("a", 0), -1);
	answer("a", 0, 7);
	cr_expect_eq(ask("a", RECENT_NS - 1), 7);
	cr_expect_eq(ask("b", 0), -1);
	cr_expect_eq(ask("a", RECENT_NS), -1);
	answer("a", RECENT_NS, 8);
	cr_expect_eq(ask("a", RECENT_NS), 8);
	recent_free(r);
}

Test(recent, forgets_what_was_asked_before_a_change)
{
	cr_assert_eq(recent_new(&r, NULL), 0);
	cr_expect_eq(ask("a", 0), -1);
	recent_forget(r);
	/* It was read before the change. */
	answer("a", 0, 7);
	cr_expect_eq(ask("a", 0), -1);
	answer("a", 0, 8);
	cr_expect_eq(ask("a", 0), 8);
	recent_forget(r);
	cr_expect_eq(ask("a", 0), -1);
	recent_free(r);
}

Test(recent, is_bounded)
{
	char key[16];

	cr_assert_eq(recent_new(&r, NULL), 0);
	for (int i = 0; i < 3 * (int)RECENT_MAX / 2; i++) {
		snprintf(key, sizeof(key), "%d", i);
		cr_expect_eq(ask(key, 0), -1);
		answer(key, 0, i);
	}
	cr_expect_eq(ask("0", 0), -1);
	cr_expect_eq(ask(key, 0), 3 * (int)RECENT_MAX / 2 - 1);
	recent_free(r);
}
