// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include "registry/recent.h"

TestSuite(recent, .timeout = 120);

static struct recent *r;
static uint64_t age;

static int ask_of(const char *key, const char *image, const char *repo)
{
	struct recent_key k = { .text = key, .image = image, .repo = repo };
	int value = -1;

	return recent_get(r, &k, 0, &value, sizeof(value), &age) ? value : -1;
}

static void answer_of(const char *key, const char *image, const char *repo,
		      int value)
{
	struct recent_key k = { .text = key, .image = image, .repo = repo };

	recent_put(r, &k, 0, &value, sizeof(value), age);
}

static int ask(const char *key, int64_t now)
{
	struct recent_key k = { .text = key, .image = "i", .repo = "" };
	int value = -1;

	return recent_get(r, &k, now, &value, sizeof(value), &age) ? value : -1;
}

static void answer(const char *key, int64_t now, int value)
{
	struct recent_key k = { .text = key, .image = "i", .repo = "" };

	recent_put(r, &k, now, &value, sizeof(value), age);
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
	recent_forget(r, NULL, NULL);
	/* The answer was read before the change. */
	answer("a", 0, 7);
	cr_expect_eq(ask("a", 0), -1);
	answer("a", 0, 8);
	cr_expect_eq(ask("a", 0), 8);
	recent_forget(r, NULL, NULL);
	cr_expect_eq(ask("a", 0), -1);
	recent_free(r);
}

Test(recent, a_change_of_one_repository_forgets_nothing_of_another)
{
	cr_assert_eq(recent_new(&r, NULL), 0);
	cr_expect_eq(ask_of("a", "i", "h/a"), -1);
	answer_of("a", "i", "h/a", 1);
	cr_expect_eq(ask_of("b", "i", "h/b"), -1);
	answer_of("b", "i", "h/b", 2);
	cr_expect_eq(ask_of("c", "k", ""), -1);
	answer_of("c", "k", "", 3);
	recent_forget(r, "j", "h/a");
	cr_expect_eq(ask_of("a", "i", "h/a"), -1);
	cr_expect_eq(ask_of("b", "i", "h/b"), 2);
	cr_expect_eq(ask_of("c", "k", ""), 3);
	/* A change of another image does not prevent an answer from being stored. */
	cr_expect_eq(ask_of("d", "k", "h/d"), -1);
	recent_forget(r, "j", "h/a");
	answer_of("d", "k", "h/d", 4);
	cr_expect_eq(ask_of("d", "k", "h/d"), 4);
	/* The image is part of key "b" only. */
	recent_forget(r, "i", "");
	cr_expect_eq(ask_of("b", "i", "h/b"), -1);
	cr_expect_eq(ask_of("d", "k", "h/d"), 4);
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
