// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "registry/stage_times.h"

TestSuite(stage_times, .timeout = 60);

#define S INT64_C(1000000000)

/* Add a start of one node and one stage, with `runs` runs of which `open` have no end. */
static void add(struct stage_times *t, const char *stage, unsigned int runs,
		unsigned int open, int64_t ns, bool is_ready)
{
	struct start_stage s = { .name = stage };
	struct start_cell cell = {
		.stage = 0, .runs = runs, .open = open, .duration_ns = ns
	};
	struct start_report r = { .stages = &s,
				  .n_stages = 1,
				  .cells = &cell,
				  .n_cells = 1,
				  .begin_ns = 5 * S,
				  .end_ns = 5 * S + ns,
				  .is_ready = is_ready };

	stage_times_add(t, &r);
}

static void expect_line(const struct buf *text, const char *line)
{
	cr_expect(strstr(text->data, line), "no %s in\n%s", line, text->data);
}

Test(stage_times, a_time_counts_in_each_bucket_that_it_is_within)
{
	AUTO_BUF text = BUF_INIT;
	struct stage_times *t;

	cr_assert_eq(stage_times_new(&t, NULL), 0);
	/* the bound of a bucket belongs to it */
	add(t, "env", 1, 0, 5 * S, true);
	add(t, "env", 1, 0, 5 * S + 1, false);
	add(t, "env", 1, 0, 7200 * S, true);
	cr_assert_eq(stage_times_format(t, &text), 0);
	expect_line(
		&text,
		"stage_duration_seconds_bucket{stage=\"env\",le=\"2\"} 0\n");
	expect_line(
		&text,
		"stage_duration_seconds_bucket{stage=\"env\",le=\"5\"} 1\n");
	expect_line(
		&text,
		"stage_duration_seconds_bucket{stage=\"env\",le=\"10\"} 2\n");
	expect_line(
		&text,
		"stage_duration_seconds_bucket{stage=\"env\",le=\"3600\"} 2\n");
	expect_line(
		&text,
		"stage_duration_seconds_bucket{stage=\"env\",le=\"+Inf\"} 3\n");
	expect_line(&text,
		    "stage_duration_seconds_sum{stage=\"env\"} 7210.000\n");
	/* Only ready starts count for the whole duration. */
	expect_line(&text, "start_duration_seconds_count{} 2\n");
	stage_times_free(t);
}

Test(stage_times, a_stage_whose_runs_have_no_end_has_no_time)
{
	AUTO_BUF text = BUF_INIT;
	struct stage_times *t;

	cr_assert_eq(stage_times_new(&t, NULL), 0);
	add(t, "image", 2, 2, 9 * S, false);
	cr_assert_eq(stage_times_format(t, &text), 0);
	cr_expect_null(strstr(text.data, "image"));
	add(t, "image", 2, 1, 9 * S, false);
	cr_assert_eq(stage_times_format(t, &text), 0);
	expect_line(&text, "stage_duration_seconds_count{stage=\"image\"} 1\n");
	stage_times_free(t);
}

Test(stage_times, names_past_the_bound_are_one)
{
	AUTO_BUF text = BUF_INIT;
	struct stage_times *t;
	char name[16];

	cr_assert_eq(stage_times_new(&t, NULL), 0);
	for (unsigned int i = 0; i < STAGE_TIMES_MAX + 5; i++) {
		(void)snprintf(name, sizeof(name), "s%u", i);
		add(t, name, 1, 0, S, false);
	}
	add(t, "s1", 1, 0, S, false);
	cr_assert_eq(stage_times_format(t, &text), 0);
	expect_line(&text, "stage_duration_seconds_count{stage=\"other\"} 5\n");
	expect_line(&text, "stage_duration_seconds_count{stage=\"s1\"} 2\n");
	expect_line(&text, "stage_duration_seconds_count{stage=\"s63\"} 1\n");
	cr_expect_null(strstr(text.data, "\"s64\""));
	stage_times_free(t);
}
