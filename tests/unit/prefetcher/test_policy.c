// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "prefetcher/limit.h"
#include "prefetcher/prefetcher.h"

TestSuite(policy, .timeout = 120);

Test(policy, reads_each_kind)
{
	static const struct {
		const char *text;
		struct wait_policy want;
	} cases[] = {
		{ "none", { .kind = WAIT_NONE } },
		{ "all", { .kind = WAIT_ALL } },
		{ "share:90%", { WAIT_SHARE, 900, 0 } },
		{ "share:100%", { WAIT_SHARE, 1000, 0 } },
		{ "share:0.1%", { WAIT_SHARE, 1, 0 } },
		{ "share:99.5%", { WAIT_SHARE, 995, 0 } },
		{ "deadline:5s", { WAIT_DEADLINE, 0, 5 * NS_PER_S } },
		{ "deadline:250ms", { WAIT_DEADLINE, 0, NS_PER_S / 4 } },
		{ "deadline:2m", { WAIT_DEADLINE, 0, 120 * NS_PER_S } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error err = ERROR_INIT;
		struct wait_policy p;

		cr_assert_eq(wait_policy_parse(cases[i].text, &p, &err), 0,
			     "%s", err.msg);
		cr_expect_eq(p.kind, cases[i].want.kind);
		cr_expect_eq(p.permille, cases[i].want.permille);
		cr_expect_eq(p.ns, cases[i].want.ns, "%s", cases[i].text);
	}
}

Test(policy, refuses_what_is_none_and_names_it)
{
	static const char *const bad[] = {
		"",
		"ALL",
		"all ",
		"share",
		"share:",
		"share:90",
		"share:0%",
		"share:101%",
		"share:-1%",
		"share:100.1%",
		"share:1.%",
		"share:1.25%",
		"share: 90%",
		"share:9999999999%",
		"deadline:",
		"deadline:0s",
		"deadline:5",
		"deadline:-5s",
		"deadline:5s ",
		"none:5s",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct error err = ERROR_INIT;
		struct wait_policy p;

		cr_expect_eq(wait_policy_parse(bad[i], &p, &err), -EINVAL,
			     "'%s'", bad[i]);
		cr_expect(strstr(err.msg, bad[i]) && strstr(err.msg, "share:"),
			  "%s", err.msg);
	}
}

Test(limit, without_a_rate_is_none)
{
	struct limit l = { .rate = 0 };

	cr_expect_eq(limit_take(&l, UINT64_MAX, 1), 0);
	cr_expect_eq(limit_take(&l, UINT64_MAX, 1), 0);
}

Test(limit, holds_the_rate_over_requests_of_any_size)
{
	struct limit l = { .rate = 1000000 };
	static const uint64_t sizes[] = { 1, 4096, 5000000, 300, 999999 };
	int64_t now = 5 * NS_PER_S, begin = now, wait;
	uint64_t sum = 0, last = 0;

	for (int i = 0; i < 1000; i++) {
		last = sizes[i % (int)ARRAY_SIZE(sizes)];
		while ((wait = limit_take(&l, last, now)) > 0)
			now += wait;
		sum += last;
	}
	/* All but the last has been paid for. */
	cr_expect_leq(sum - last, (uint64_t)(now - begin) / 1000 + 1000);
	cr_expect_geq(sum, (uint64_t)(now - begin) / 1000);
}

Test(limit, saves_nothing_up_while_idle)
{
	struct limit l = { .rate = 1000 };

	cr_expect_eq(limit_take(&l, 1000, 0), 0);
	cr_expect_eq(limit_take(&l, 1000, 3600 * NS_PER_S), 0);
	cr_expect_eq(limit_take(&l, 1, 3600 * NS_PER_S), NS_PER_S);
}

Test(limit, bears_the_largest_rate_and_request)
{
	struct limit l = { .rate = LIMIT_RATE_MAX };

	cr_expect_eq(limit_take(&l, UINT32_MAX, 0), 0);
	cr_expect_lt(limit_take(&l, 1, 0), NS_PER_S);
	cr_expect_gt(limit_take(&l, 1, 0), 0);
}
