// SPDX-License-Identifier: Apache-2.0
#include "registry/stage_quota.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>

static struct stage_quota *q;

static void setup(void)
{
	cr_assert_eq(stage_quota_new(100, &q, NULL), 0);
}

static void teardown(void)
{
	stage_quota_free(q);
}

TestSuite(stage_quota, .init = setup, .fini = teardown);

static int check(const char *node, int64_t now)
{
	return stage_quota_check(q, node, now, NULL);
}

Test(stage_quota, bounds_a_node_and_no_other)
{
	stage_quota_add(q, "a", 99, 1000);
	cr_expect_eq(check("a", 1000), 0);
	stage_quota_add(q, "a", 1, 1001);
	cr_expect_eq(check("a", 1001), -EDQUOT);
	cr_expect_eq(check("b", 1001), 0);
}

Test(stage_quota, begins_anew_after_an_hour)
{
	stage_quota_add(q, "a", 200, 1000);
	cr_expect_eq(check("a", 4599), -EDQUOT);
	cr_expect_eq(check("a", 4600), 0);
	stage_quota_add(q, "a", 1, 4600);
	cr_expect_eq(check("a", 4601), 0);
	stage_quota_add(q, "a", 99, 4700);
	cr_expect_eq(check("a", 4701), -EDQUOT);
	cr_expect_eq(check("a", 100), 0, "the clock was set back");
}

Test(stage_quota, remembers_a_bounded_number_of_nodes)
{
	char name[16];

	stage_quota_add(q, "a", 100, 1000);
	for (unsigned int i = 0; i < STAGE_QUOTA_NODES_MAX + 10; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		stage_quota_add(q, name, 100, 1001);
	}
	cr_expect_eq(check("a", 1001), -EDQUOT);
	cr_expect_eq(check(name, 1001), 0);
	stage_quota_add(q, name, 100, 5000);
	cr_expect_eq(check(name, 5000), -EDQUOT);
}
