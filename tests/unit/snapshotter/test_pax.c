// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/convert/pax.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(pax, .timeout = 120);

static bool has_mtime(const char *records, const char *value)
{
	struct pax_text t =
		pax_find((const uint8_t *)records, strlen(records), "mtime");

	if (!value)
		return t.data == NULL;
	return t.len == strlen(value) && memcmp(t.data, value, t.len) == 0;
}

Test(pax, finds_the_last_record_of_a_key)
{
	cr_expect(has_mtime("14 mtime=-0.5\n", "-0.5"));
	cr_expect(has_mtime("10 path=a\n14 mtime=-0.5\n", "-0.5"));
	cr_expect(has_mtime("14 mtime=-0.5\n11 mtime=3\n", "3"));
	cr_expect(has_mtime("9 mtime=\n", ""));
	/* A value that looks like a record is not one. */
	cr_expect(has_mtime("26 comment=14 mtime=-0.5\n\n", NULL));
	cr_expect(has_mtime("10 path=a\n", NULL));
	cr_expect(has_mtime("14 atime=-0.5\n", NULL));
	cr_expect(has_mtime("", NULL));
}

Test(pax, stops_at_records_that_are_none)
{
	static const char *const bad[] = {
		"x14 mtime=-0.5\n",
		"0 mtime=-0.5\n",
		"15 mtime=-0.5\n",
		"14 mtime=-0.5\nx",
		"99999999999999999999 mtime=-0.5\n",
		"10 mtimes\n",
		"13 mtime=-0.5\n",
		"14mtime=-0.55\n",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_not(pax_is_whole((const uint8_t *)bad[i],
					   strlen(bad[i])),
			      "%s", bad[i]);
	cr_expect_not(pax_is_whole((const uint8_t *)"10 pa\0th=\n", 10));
	cr_expect(has_mtime("15 mtime=-0.5\n", NULL), "longer than it is");
	cr_expect(pax_is_whole((const uint8_t *)"14 mtime=-0.5\n", 14));
	cr_expect(pax_is_whole((const uint8_t *)"", 0));
}
