// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include "common/clock.h"
#include "common/duration.h"

TestSuite(duration, .timeout = 60);

Test(duration, is_as_people_say_it)
{
	static const struct {
		double s;
		const char *text;
	} cases[] = {
		{ 0, "0.0 s" },        { -1.5, "-1.5 s" },
		{ 4.24, "4.2 s" },     { 59.94, "59.9 s" },
		{ 59.96, "1 min" },    { 303, "5 min 3 s" },
		{ 3240, "54 min" },    { 3599.6, "1 h" },
		{ 7530, "2 h 5 min" }, { 86399, "23 h 59 min" },
		{ 273600, "3 d 4 h" },
	};
	char text[DURATION_TEXT_MAX];

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		duration_format((int64_t)(cases[i].s * (double)NS_PER_S), text);
		cr_expect_str_eq(text, cases[i].text);
	}
	duration_format(INT64_MAX, text);
	cr_expect_str_eq(text, "106751 d 23 h");
}
