// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <string.h>

#include "common/bytes.h"
#include "common/progress.h"

TestSuite(progress, .timeout = 120);

#define SECOND INT64_C(1000000000)

Test(progress, short_jobs_show_nothing)
{
	AUTO_FREE char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	struct progress *p = progress_new_as(out, true);

	progress_step(p, "copying", 1, 10, 5 * SECOND);
	progress_step(p, "copying", 9, 10, 6 * SECOND);
	progress_free(p);
	fclose(out);
	cr_expect_str_empty(text);
}

Test(progress, a_terminal_gets_a_bar_that_is_taken_away)
{
	AUTO_FREE char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	struct progress *p = progress_new_as(out, true);

	progress_step(p, "copying", 0, 8 * MIB, SECOND);
	progress_step(p, "copying", 4 * MIB, 8 * MIB, 5 * SECOND);
	progress_free(p);
	fclose(out);
	cr_expect(strstr(text, "copying [############............] "
			       "4.0 MiB of 8.0 MiB, 1.0 MiB/s, 4 s left"),
		  "%s", text);
	cr_expect_str_eq(text + strlen(text) - 4, "\r\033[K");
}

Test(progress, a_line_that_stays_is_not_on_the_bar)
{
	AUTO_FREE char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	struct progress *p = progress_new_as(out, true);

	progress_say(p, "first");
	progress_step(p, "copying", 0, 8 * MIB, SECOND);
	progress_step(p, "copying", 4 * MIB, 8 * MIB, 5 * SECOND);
	progress_say(p, "tired");
	progress_free(p);
	fclose(out);
	cr_expect_eq(strncmp(text, "first\n", 6), 0, "%s", text);
	cr_expect(strstr(text, "s left\r\033[Ktired\n"), "%s", text);
	cr_expect_str_eq(text + strlen(text) - 6, "tired\n");
}

Test(progress, elsewhere_a_line_every_ten_seconds)
{
	AUTO_FREE char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	struct progress *p = progress_new_as(out, false);
	size_t lines = 0;

	for (int64_t s = 1; s <= 31; s++)
		progress_step(p, "copying", (uint64_t)s * MIB, 0, s * SECOND);
	progress_free(p);
	fclose(out);
	for (const char *c = text; *c; c++)
		lines += *c == '\n';
	cr_expect_eq(lines, (size_t)3, "%s", text);
	cr_expect_null(strchr(text, '\033'));
}

Test(progress, one_thing_is_no_several)
{
	char text[PROGRESS_COUNT_MAX];

	progress_format_count(1, "pack", text);
	cr_expect_str_eq(text, "1 pack");
	progress_format_count(0, "pack", text);
	cr_expect_str_eq(text, "0 packs");
	progress_format_count(2, "miss", text);
	cr_expect_str_eq(text, "2 misses");
	progress_format_count(1, "miss", text);
	cr_expect_str_eq(text, "1 miss");
	progress_format_count(UINT64_MAX, "a noun too long for it", text);
	cr_expect_str_eq(text, "18446744073709551615 a noun too long for s");
}

Test(progress, what_is_done_gives_the_terminal_no_order)
{
	AUTO_FREE char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	struct progress *p = progress_new_as(out, false);

	progress_step(p, "a\033[2J", 0, 8 * MIB, SECOND);
	progress_step(p, "a\033[2J", 4 * MIB, 8 * MIB, 50 * SECOND);
	progress_free(p);
	fclose(out);
	cr_expect_eq(strncmp(text, "a?[2J: 4.0 MiB", 14), 0, "%s", text);
}
