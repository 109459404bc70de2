// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "registry/image_report.h"

TestSuite(image_report, .timeout = 60);

#define START "\"trace\":\"own\",\"end\":\"ready\""

static int parse(const char *text, struct image_report *r, struct error *err)
{
	return image_report_parse(text, strlen(text), r, err);
}

static int64_t number(const json_t *o, const char *name)
{
	return json_integer_value(json_object_get(o, name));
}

Test(image_report, says_what_is_left_out_as_nothing)
{
	struct error err = ERROR_INIT;
	struct image_report r;

	cr_assert_eq(parse("{\"start\":{" START ",\"more\":1}}", &r, &err), 0,
		     "%s", err.msg);
	cr_expect_str_eq(r.name, "");
	cr_expect_str_eq(r.job, "");
	cr_expect_eq(r.attempt, 0);
	cr_expect_eq(r.peers.len, 0);
	cr_expect_null(json_object_get(r.start, "more"));
	cr_expect(json_is_integer(json_object_get(r.start, "ready_ms")));
	cr_expect_eq(number(json_object_get(r.start, "hot"), "used_bytes"), 0);
	cr_expect(json_is_false(json_object_get(r.start, "watched")));
	image_report_fini(&r);
}

Test(image_report, has_no_more_of_peers_than_came_of_them)
{
	struct error err = ERROR_INIT;
	struct image_report r;

	cr_assert_eq(parse("{\"peer_bytes\":10,\"peers\":[[\"a\",7],[\"b\",0],"
			   "[\"c\",5],[\"d\",1]],\"start\":{" START "}}",
			   &r, &err),
		     0, "%s", err.msg);
	cr_expect_str_eq(r.peers.data, "a 7\nc 3\n");
	image_report_fini(&r);
}

Test(image_report, ends_at_its_bound)
{
	char *text = calloc(1, IMAGE_REPORT_MAX + 64);
	struct error err = ERROR_INIT;
	struct image_report r;
	int n;

	cr_assert(text);
	n = sprintf(text, "{\"start\":{" START "}}");
	memset(text + n, ' ', IMAGE_REPORT_MAX - (size_t)n);
	cr_expect_eq(parse(text, &r, &err), 0, "%s", err.msg);
	image_report_fini(&r);
	text[IMAGE_REPORT_MAX] = ' ';
	cr_expect_eq(parse(text, &r, &err), -EINVAL);
	image_report_fini(&r);
	free(text);
}

static void add(struct image_sums *s, const char *members)
{
	struct error err = ERROR_INIT;
	struct image_report r;
	char text[512];

	(void)snprintf(text, sizeof(text), "{\"start\":{%s}}", members);
	cr_assert_eq(parse(text, &r, &err), 0, "%s", err.msg);
	cr_assert_eq(image_sums_add(s, r.start), 0);
	image_report_fini(&r);
}

Test(image_report, sums_up_starts_and_takes_the_median_of_those_that_got_ready)
{
	struct image_sums *s;
	struct error err = ERROR_INIT;

	cr_assert_eq(image_sums_new(&s, &err), 0);
	add(s, START ",\"ready_ms\":9,\"waited_ms\":5,\"reads\":3,"
		     "\"hot\":{\"used_bytes\":7},\"watched\":true,"
		     "\"missed_files\":[{\"path\":\"/a\",\"bytes\":5},"
		     "{\"path\":\"/b\",\"bytes\":6}]");
	add(s, START ",\"ready_ms\":1,\"waited_ms\":1,\"reads\":4,"
		     "\"hot\":{\"used_bytes\":1},"
		     "\"missed_files\":[{\"path\":\"/a\",\"bytes\":5}]");
	add(s, START ",\"ready_ms\":3,\"waited_ms\":7");
	add(s, "\"trace\":\"none\",\"end\":\"window\",\"ready_ms\":90,"
	       "\"waited_ms\":8");
	{
		AUTO_JSON *o = image_sums_json(s);
		AUTO_JSON *files = image_sums_files(s, 1);

		cr_assert(o && files);
		cr_expect_eq(number(o, "starts"), 4);
		cr_expect_eq(number(o, "ready"), 3);
		cr_expect_eq(number(o, "watched"), 1);
		cr_expect_eq(number(o, "ready_median_ms"), 3);
		cr_expect_eq(number(o, "waited_median_ms"), 7);
		cr_expect_eq(number(o, "reads"), 7);
		cr_expect_null(json_object_get(o, "started_at"));
		cr_expect_eq(number(json_object_get(o, "hot"), "used_bytes"),
			     8);
		cr_expect_eq(number(json_object_get(o, "traces"), "none"), 1);
		cr_expect_eq(json_array_size(files), 1);
		cr_expect_str_eq(json_string_value(
					 json_object_get(json_array_get(files,
									0),
							 "path")),
				 "/a");
		cr_expect_eq(number(json_array_get(files, 0), "bytes"), 10);
		cr_expect_eq(number(json_array_get(files, 0), "starts"), 2);
	}
	image_sums_free(s);
}
