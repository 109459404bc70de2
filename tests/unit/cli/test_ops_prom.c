// SPDX-License-Identifier: Apache-2.0
/* Parsing of times and names in options of bootseer ops. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "cli/ops_prom.h"

static void set_other_time_zone(void)
{
	/* Times are UTC, whatever the local time zone is. */
	(void)setenv("TZ", "America/Los_Angeles", 1);
	tzset();
}

TestSuite(ops_prom, .init = set_other_time_zone, .timeout = 60);

Test(ops_prom, reads_times_of_each_form)
{
	static const struct {
		const char *text;
		int64_t want;
	} rows[] = {
		{ "0", 0 },
		{ "1759276800", 1759276800 },
		{ "2025-10-01", 1759276800 },
		{ "2025-10-01T00:00Z", 1759276800 },
		{ "2025-10-01T00:00:01Z", 1759276801 },
		{ "2024-02-29", 1709164800 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct error err = ERROR_INIT;
		int64_t got = -1;

		cr_expect_eq(ops_read_time(rows[i].text, &got, &err), 0, "%s",
			     err.msg);
		cr_expect_eq(got, rows[i].want, "%s", rows[i].text);
	}
}

Test(ops_prom, refuses_times_that_are_none)
{
	static const char *const bad[] = {
		"",
		"-1",
		"1e9",
		"yesterday",
		"2025-10",
		"2025-13-01",
		"2025-10-01T00:00:00",
		"2025-10-01 00:00:00",
		"99999999999999999999",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct error err = ERROR_INIT;
		int64_t got = 7;

		cr_expect_eq(ops_read_time(bad[i], &got, &err), -EINVAL, "%s",
			     bad[i]);
		cr_expect_eq(got, 7);
	}
}

Test(ops_prom, writes_times_to_the_minute)
{
	char text[32];

	cr_expect_str_eq(ops_time_text(1759276859.9, text),
			 "2025-10-01 00:00Z");
	cr_expect_str_eq(ops_time_text(0, text), "1970-01-01 00:00Z");
}
