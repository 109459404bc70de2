// SPDX-License-Identifier: Apache-2.0
/* Lines that show the nodes of a start: the letters' positions, whatever the service replies. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cli/start_gantt.h"

TestSuite(start_gantt, .timeout = 60);

/* Draw with 20 columns of bar, the minimum; the caller owns the text. */
static char *draw_start(const char *json, int columns)
{
	json_t *start = json_loads(json, 0, NULL);
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	cr_assert(start && f);
	start_gantt(start, columns, f);
	cr_assert_eq(fclose(f), 0);
	json_decref(start);
	return text;
}

#define STAGES \
	"\"stages\":[{\"stage\":\"image\",\"top\":true}," \
	"{\"stage\":\"image.hot\",\"top\":false},{\"stage\":\"env\",\"top\":true}]"

static void expect_has(const char *text, const char *part)
{
	cr_expect(strstr(text, part), "no '%s' in:\n%s", part, text);
}

Test(start_gantt, a_stage_has_its_letter_where_it_ran)
{
	char *text = draw_start(
		"{\"duration_s\":100," STAGES ",\"nodes\":[{\"node\":\"n1\","
		"\"busy_s\":60,\"straggler\":true,\"runs\":["
		"{\"stage\":\"image\",\"top\":true,\"at_s\":0,\"duration_s\":49},"
		"{\"stage\":\"image.hot\",\"top\":false,\"at_s\":80,\"duration_s\":9},"
		"{\"stage\":\"env\",\"top\":true,\"at_s\":75,\"duration_s\":14}]}]}",
		0);

	/* Stages inside other stages are not drawn and have no letter. */
	expect_has(text, "n1        1 min ! AAAAAAAAAA.....BBB..\n");
	expect_has(text, "  A image  B env  . nothing  ? no end  ! failed\n");
	free(text);
}

Test(start_gantt, a_run_without_an_end_is_marked_and_nothing_lies_outside)
{
	char *text = draw_start(
		"{\"duration_s\":10," STAGES ",\"nodes\":[{\"node\":\"n1\","
		"\"busy_s\":1,\"straggler\":false,\"runs\":["
		"{\"stage\":\"env\",\"top\":true,\"open\":true,\"at_s\":5,"
		"\"duration_s\":1e300},"
		"{\"stage\":\"what\",\"top\":true,\"at_s\":1e300,\"duration_s\":1},"
		"{\"stage\":\"what\",\"top\":true,\"at_s\":-7,\"duration_s\":1}]}]}",
		0);

	expect_has(text, "s   #.........?????????#\n");
	free(text);
}

Test(start_gantt, a_run_that_failed_is_marked)
{
	char *text = draw_start("{\"duration_s\":10," STAGES
				",\"nodes\":[{\"node\":\"n1\","
				"\"busy_s\":9,\"straggler\":false,\"runs\":["
				"{\"stage\":\"env\",\"top\":true,\"at_s\":0,"
				"\"duration_s\":4.9,\"status\":137}]}]}",
				0);

	expect_has(text, "!!!!!!!!!!..........\n");
	free(text);
}

Test(start_gantt, a_start_that_took_no_time_is_drawn)
{
	char *text =
		draw_start("{\"duration_s\":0," STAGES ",\"nodes\":["
			   "{\"node\":\"n1\",\"runs\":[{\"stage\":\"env\","
			   "\"top\":true,\"at_s\":1,\"duration_s\":1}]},{}]}",
			   0);

	expect_has(text, "n1        0.0 s   B...................\n");
	expect_has(text, "?         0.0 s   ....................\n");
	free(text);
}

Test(start_gantt, a_strangers_name_moves_no_cursor_and_has_its_width)
{
	char *text =
		draw_start("{\"duration_s\":1,\"stages\":[],\"nodes\":["
			   "{\"node\":\"a\\u001b[2Jb\\n\"},{\"node\":"
			   "\"0123456789012345678901234567890123456789\"}]}",
			   80);

	cr_expect_null(strchr(text, '\033'));
	expect_has(text, "a?[2Jb?");
	expect_has(text, "012345678901234567890123 ");
	cr_expect_null(strstr(text, "0123456789012345678901234"));
	free(text);
}

Test(start_gantt, a_duration_is_a_number_whatever_the_service_says)
{
	static const struct {
		const char *json, *want;
	} rows[] = {
		{ "{\"s\":4.25}", "4.2 s" },
		{ "{\"s\":303}", "5 min 3 s" },
		{ "{\"s\":7500}", "2 h 5 min" },
		{ "{\"s\":1e300}", "0.0 s" },
		{ "{\"s\":-1e300}", "0.0 s" },
		{ "{\"s\":\"5\"}", "0.0 s" },
		{ "{}", "0.0 s" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *o = json_loads(rows[i].json, 0, NULL);
		char text[DURATION_TEXT_MAX];

		cr_assert(o);
		start_duration(o, "s", text);
		cr_expect_str_eq(text, rows[i].want, "%s: '%s'", rows[i].json,
				 text);
		json_decref(o);
	}
}
