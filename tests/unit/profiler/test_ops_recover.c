// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>

#include "common/array.h"
#include "profiler/ops/recover.h"

TestSuite(ops_recover, .timeout = 60);

static const char *const of_b[] = { "10.0.0.2", "b.example", NULL };
static const char *const of_c[] = { "10.0.0.3", "a", "twice", NULL };
static const char *const of_d[] = { "twice", NULL };

static const struct recover_node nodes[] = {
	{ .name = "a" },
	{ .name = "b", .others = of_b },
	{ .name = "c", .others = of_c, .is_out = true },
	{ .name = "d", .others = of_d, .is_out = true, .is_held = true },
	{ .name = "master", .is_control_plane = true, .is_out = true },
};

static struct recover_plan decide(struct recover_wish *w, size_t n,
				  const char *budget)
{
	struct recover_budget b;
	struct recover_plan p;

	cr_assert_eq(recover_read_budget(budget, &b, NULL), 0, "%s", budget);
	recover_decide(nodes, ARRAY_SIZE(nodes), b, w, n, &p);
	return p;
}

Test(ops_recover, a_budget_is_a_number_or_a_share)
{
	static const char *const bad[] = {
		"",    "%",     "-1",
		"1.5", "101%",  "1%%",
		"1 %", "65537", "99999999999999999999",
		"5 ",  "0x1"
	};
	struct recover_budget b;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_eq(recover_read_budget(bad[i], &b, NULL), -EINVAL,
			     "%s", bad[i]);
	cr_expect_eq(recover_read_budget("0", &b, NULL), 0);
	cr_expect(b.count == 0 && !b.is_percent);
	cr_expect_eq(recover_read_budget("100%", &b, NULL), 0);
	cr_expect(b.count == 100 && b.is_percent);
}

Test(ops_recover, each_name_has_its_verdict)
{
	struct recover_wish w[] = {
		{ .node = "a" },        { .node = "b.example" },
		{ .node = "10.0.0.2" }, { .node = "b" },
		{ .node = "c" },        { .node = "d" },
		{ .node = "twice" },    { .node = "master" },
		{ .node = "" },         { .node = "A" }
	};
	static const enum recover_verdict wanted[] = {
		RECOVER_TAKE,      RECOVER_TAKE,          RECOVER_TWICE,
		RECOVER_TWICE,     RECOVER_OUT,           RECOVER_HELD,
		RECOVER_AMBIGUOUS, RECOVER_CONTROL_PLANE, RECOVER_UNKNOWN,
		RECOVER_UNKNOWN
	};
	const struct recover_plan p = decide(w, ARRAY_SIZE(w), "4");

	for (size_t i = 0; i < ARRAY_SIZE(w); i++)
		cr_expect_eq(w[i].verdict, wanted[i], "%s", w[i].node);
	/* A node's own name takes precedence over another node's label. */
	cr_expect_eq(w[0].index, 0);
	cr_expect_eq(w[1].index, 1);
	cr_expect(p.n_nodes == 4 && p.n_out == 2 && p.n_new == 2);
	cr_expect(p.is_allowed);
}

Test(ops_recover, what_is_out_already_counts_and_shares_are_cut)
{
	struct recover_wish w[] = { { .node = "a" }, { .node = "b" } };

	cr_expect(decide(w, 2, "4").is_allowed);
	cr_expect_not(decide(w, 2, "3").is_allowed);
	cr_expect(decide(w, 1, "3").is_allowed);
	cr_expect(decide(w, 2, "100%").is_allowed);
	cr_expect_not(decide(w, 2, "99%").is_allowed);
	cr_expect(decide(w, 1, "75%").is_allowed);
	cr_expect_not(decide(w, 1, "74%").is_allowed);
	cr_expect_not(decide(w, 1, "0").is_allowed);
}

Test(ops_recover, xids_have_the_papers_cures)
{
	cr_expect_eq(recover_read_xid(94), RECOVER_XID_RESTART);
	cr_expect_eq(recover_read_xid(149), RECOVER_XID_RESET);
	cr_expect_eq(recover_read_xid(79), RECOVER_XID_SUPPORT);
	cr_expect_eq(recover_read_xid(0), RECOVER_XID_UNKNOWN);
	cr_expect_str_eq(recover_xid_text(RECOVER_XID_UNKNOWN), "");
}

/* Tables 1 and 2 of the paper: 145 and 149 are NVLink errors, 94 is an ECC error, 79 a missing
 * GPU. */
Test(ops_recover, xids_are_of_the_papers_categories)
{
	static const uint32_t xids[] = { 145, 149, 74, 94, 79, 31, 0, 119 };
	size_t n[RECOVER_N_KINDS] = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(xids); i++)
		n[recover_kind_of(xids[i])]++;
	cr_expect_eq(n[RECOVER_KIND_NVLINK], 3);
	cr_expect_eq(n[RECOVER_KIND_MEMORY], 1);
	cr_expect_eq(n[RECOVER_KIND_DROPOUT], 1);
	cr_expect_eq(n[RECOVER_KIND_PROGRAM], 1);
	cr_expect_eq(n[RECOVER_KIND_OTHER], 2);
	cr_expect_float_eq(recover_kind_elsewhere(RECOVER_KIND_MEMORY), 38.9,
			   1e-9);
	cr_expect_float_eq(recover_kind_elsewhere(RECOVER_KIND_PROGRAM), 22.3,
			   1e-9);
	cr_expect(isnan(recover_kind_elsewhere(RECOVER_KIND_OTHER)));
	cr_expect_str_eq(recover_kind_text(RECOVER_KIND_DROPOUT), "GPU lost");
}
