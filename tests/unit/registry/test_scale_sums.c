// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "registry/scale_sums.h"

TestSuite(scale_sums, .timeout = 60);

static struct scale_sums *begin(void)
{
	struct error err = ERROR_INIT;
	struct scale_sums *s;

	cr_assert_eq(scale_sums_new(&s, &err), 0);
	return s;
}

static void add(struct scale_sums *s, const char *job, const char *stage,
		int64_t nodes, int64_t gpus, int64_t job_ms, int64_t median_ms,
		int64_t max_ms)
{
	const struct scale_row r = { job,    stage,     nodes, gpus,
				     job_ms, median_ms, max_ms };

	cr_assert_eq(scale_sums_add(s, &r), 0);
}

static double number(const json_t *o, const char *name)
{
	return json_number_value(json_object_get(o, name));
}

static const json_t *range(const json_t *o, size_t k)
{
	return json_array_get(json_object_get(o, "ranges"), k);
}

Test(scale_sums, spreads_times_and_counts_starts_of_jobs_by_size)
{
	struct scale_sums *s = begin();
	const json_t *r;

	add(s, "small", "", 1, 0, 10000, 9000, 9000);
	for (int i = 1; i <= 5; i++)
		add(s, "large", "", 2 + i % 2, 0, i * 1000, i * 100, i * 200);
	add(s, "other", "", 3, 0, 9000, 500, 500);
	add(s, "large", "env", 3, 0, 3000, 1000, 4000);
	{
		AUTO_JSON *o = scale_sums_json(s);

		cr_assert(o);
		cr_expect_str_eq(json_string_value(json_object_get(o, "unit")),
				 "nodes");
		cr_expect_eq(number(o, "starts"), 7);
		cr_expect_eq(number(o, "jobs"), 3);
		r = range(o, 0);
		cr_expect_eq(number(json_object_get(r, "job_s"), "median"), 10);
		/* There is no ratio for starts of one node. */
		cr_expect(json_is_null(json_object_get(r, "max_median")));
		r = range(o, 1);
		cr_expect_eq(number(r, "from"), 2);
		cr_expect_eq(number(r, "to"), 3);
		cr_expect_eq(number(json_object_get(r, "job_s"), "n"), 6);
		cr_expect_eq(number(json_object_get(r, "job_s"), "min"), 1);
		cr_expect_eq(number(json_object_get(r, "job_s"), "p25"), 2);
		cr_expect_eq(number(json_object_get(r, "job_s"), "median"), 3);
		cr_expect_eq(number(json_object_get(r, "job_s"), "max"), 9);
		cr_expect_eq(number(json_object_get(r, "max_median"), "max"),
			     2);
		r = json_object_get(r, "starts_of_job");
		cr_expect_eq(number(r, "n"), 2);
		cr_expect_eq(number(r, "min"), 1);
		cr_expect_eq(number(r, "max"), 5);
		cr_expect(json_is_null(json_object_get(range(o, 2), "job_s")));
		r = json_array_get(json_object_get(o, "stages"), 0);
		cr_expect_eq(number(json_object_get(r, "node_s"), "median"), 1);
		cr_expect_eq(
			number(json_array_get(json_object_get(r, "max_median"),
					      1),
			       "median"),
			4);
	}
	scale_sums_free(s);
}

static const char *unit(const json_t *o)
{
	return json_string_value(json_object_get(o, "unit"));
}

/* Starts of one node do not count: a node can invent any number of them. */
Test(scale_sums, goes_by_gpus_where_most_starts_of_several_nodes_say_how_many)
{
	struct scale_sums *s = begin();

	add(s, "a", "", 2, 16, 1000, 1, 1);
	add(s, "b", "", 4, 32, 2000, 1, 1);
	{
		AUTO_JSON *o = scale_sums_json(s);

		cr_expect_str_eq(json_string_value(json_object_get(o, "unit")),
				 "gpus");
		cr_expect_eq(number(json_object_get(range(o, 5), "job_s"),
				    "max"),
			     2);
	}
	for (int i = 0; i < 5; i++)
		add(s, "c", "", 1, 0, 3000, 1, 1);
	add(s, "d", "", 4, 0, 9000, 1, 1);
	{
		AUTO_JSON *o = scale_sums_json(s);

		cr_expect_str_eq(unit(o), "gpus");
		cr_expect_eq(number(o, "starts"), 8);
		cr_expect_eq(number(o, "starts_of_no_size"), 6);
		cr_expect(json_is_null(json_object_get(range(o, 0), "job_s")));
		cr_expect_eq(number(json_object_get(range(o, 5), "job_s"),
				    "max"),
			     2);
	}
	add(s, "d", "", 4, 0, 9000, 1, 1);
	{
		AUTO_JSON *o = scale_sums_json(s);

		cr_expect_str_eq(unit(o), "nodes");
		cr_expect_eq(number(o, "starts_of_no_size"), 0);
		cr_expect_eq(number(json_object_get(range(o, 2), "job_s"),
				    "max"),
			     9);
	}
	scale_sums_free(s);
}

Test(scale_sums, goes_by_gpus_also_where_all_starts_are_of_one_node)
{
	struct scale_sums *s = begin();

	add(s, "a", "", 1, 8, 1000, 1, 1);
	{
		AUTO_JSON *o = scale_sums_json(s);

		cr_expect_str_eq(unit(o), "gpus");
		cr_expect_eq(number(json_object_get(range(o, 3), "job_s"), "n"),
			     1);
	}
	scale_sums_free(s);
}

static const char *stage_name(const json_t *o, size_t i)
{
	const json_t *stages = json_object_get(o, "stages");

	return json_string_value(
		json_object_get(json_array_get(stages, i), "stage"));
}

/* A node invents stages, in starts of its own and in a start of many nodes. */
Test(scale_sums, tells_the_stages_that_most_starts_have_on_several_nodes)
{
	struct scale_sums *s = begin();
	char name[16];

	for (int start = 0; start < 3; start++) {
		add(s, "own", "", 1, 8, 1, 1, 1);
		for (unsigned int i = 0; i < SCALE_STAGES_MAX; i++) {
			(void)snprintf(name, sizeof(name), "s%u", i);
			add(s, "own", name, 1, 8, 1, 1, 1);
		}
	}
	add(s, "large", "", 100, 800, 1, 1, 1);
	add(s, "large", "env", 100, 800, 7000, 1, 1);
	add(s, "large", "train", 100, 800, 5000, 1, 1);
	{
		AUTO_JSON *o = scale_sums_json(s);

		cr_assert_eq(json_array_size(json_object_get(o, "stages")),
			     SCALE_STAGES_MAX);
		/* The stages are in the order in which they were added. */
		cr_expect_str_eq(stage_name(o, 0), "s0");
		cr_expect_str_eq(stage_name(o, SCALE_STAGES_MAX - 2), "env");
		cr_expect_str_eq(stage_name(o, SCALE_STAGES_MAX - 1), "train");
		cr_expect_eq(
			number(json_object_get(
				       json_array_get(json_object_get(o,
								      "stages"),
						      SCALE_STAGES_MAX - 2),
				       "job_s"),
			       "max"),
			7);
	}
	scale_sums_free(s);
}

Test(scale_sums, knows_no_more_names_of_stages_than_its_bound)
{
	struct scale_sums *s = begin();
	char name[16];

	add(s, "a", "env", 2, 0, 1, 1, 1);
	for (unsigned int i = 0; i < SCALE_NAMES_MAX + 5; i++) {
		(void)snprintf(name, sizeof(name), "s%u", i);
		add(s, "a", name, 2, 0, 1, 1, 1);
	}
	add(s, "b", "env", 2, 0, 1, 1, 1);
	{
		AUTO_JSON *o = scale_sums_json(s);

		cr_expect_str_eq(stage_name(o, 0), "env");
	}
	scale_sums_free(s);
}

Test(scale_sums, has_stages_as_lines_of_a_text)
{
	const struct scale_row env = { "j", "env", 8, 64, 2000, 1000, 1500 };
	const struct scale_row model = { "j", "model.load", 7, 64, 1, 0, 2 };
	char stage[STAGE_NAME_MAX + 1];
	struct scale_row r = { .job = "j", .gpus = 64 };
	AUTO_BUF b = BUF_INIT;
	const char *at;

	cr_assert_eq(scale_stage_format(&env, &b), 0);
	cr_assert_eq(scale_stage_format(&model, &b), 0);
	cr_expect_str_eq(b.data, "env 8 2000 1000 1500\nmodel.load 7 1 0 2\n");
	at = b.data;
	cr_assert(scale_stage_parse(&at, stage, &r));
	cr_expect_str_eq(r.stage, "env");
	cr_expect_eq(r.nodes, 8);
	cr_expect_eq(r.gpus, 64);
	cr_expect_eq(r.job_ms, 2000);
	cr_assert(scale_stage_parse(&at, stage, &r));
	cr_expect_str_eq(r.stage, "model.load");
	cr_expect_eq(r.max_ms, 2);
	cr_expect_not(scale_stage_parse(&at, stage, &r));
}

Test(scale_sums, reads_no_stage_of_what_is_none)
{
	static const char *const bad[] = { "",
					   " 1 2 3 4\n",
					   "env",
					   "env 1 2 3\n",
					   "env 1 2 3 4",
					   "env 1 2 3 4 5\n",
					   "env 1  x 3 4\n" };
	char stage[STAGE_NAME_MAX + 1], text[128];
	struct scale_row r = { .job = "j" };
	const char *at;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		at = bad[i];
		cr_expect_not(scale_stage_parse(&at, stage, &r), "%s", bad[i]);
	}
	memset(text, 'a', sizeof(text));
	strcpy(text + 80, " 1 2 3 4\n");
	at = text;
	cr_expect_not(scale_stage_parse(&at, stage, &r));
}

Test(scale_sums, leaves_out_stages_past_its_bound)
{
	struct scale_sums *s = begin();
	char name[16];

	for (unsigned int i = 0; i < SCALE_STAGES_MAX + 5; i++) {
		(void)snprintf(name, sizeof(name), "s%u", i);
		add(s, "a", name, INT64_C(1) << 40, 0, 1, 1, 1);
	}
	{
		AUTO_JSON *o = scale_sums_json(s);

		cr_expect_eq(json_array_size(json_object_get(o, "stages")),
			     SCALE_STAGES_MAX);
		cr_expect_eq(number(o, "starts"), 0);
		cr_expect_eq(number(range(o, SCALE_RANGES - 1), "to"), 0);
	}
	scale_sums_free(s);
}
