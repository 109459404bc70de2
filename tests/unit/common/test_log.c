// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"

#define MOST 4096
#define LINE_ROOM 128 /* upper bound of a line's bytes in these tests */

TestSuite(common_log, .timeout = 120);

static off_t size_of(FILE *f)
{
	struct stat st;

	cr_assert_eq(fstat(fileno(f), &st), 0);
	return st.st_size;
}

/* Write lines with standard error redirected to the file. */
static void write_lines(FILE *f, enum log_level level, int n)
{
	int was = dup(STDERR_FILENO);

	cr_assert(was >= 0 && dup2(fileno(f), STDERR_FILENO) >= 0);
	for (int i = 0; i < n; i++)
		log_line(level, "test", "refused number=%d", i);
	(void)dup2(was, STDERR_FILENO);
	(void)close(was);
}

Test(common_log, fills_a_file_up_to_the_bound_and_errors_twice_that)
{
	FILE *f = tmpfile();

	cr_assert_not_null(f);
	log_set_file_max(MOST);
	write_lines(f, LOG_LEVEL_WARNING, MOST);
	cr_expect_gt(size_of(f), MOST);
	cr_expect_lt(size_of(f), MOST + LINE_ROOM);
	write_lines(f, LOG_LEVEL_ERROR, MOST);
	cr_expect_gt(size_of(f), 2 * MOST);
	cr_expect_lt(size_of(f), 2 * MOST + LINE_ROOM);
	/* Without a bound, all lines are written. */
	log_set_file_max(0);
	write_lines(f, LOG_LEVEL_WARNING, MOST);
	cr_expect_gt(size_of(f), 4 * MOST);
	(void)fclose(f);
}

Test(common_log, bounds_nothing_but_files)
{
	int p[2], was = dup(STDERR_FILENO);

	cr_assert_eq(pipe(p), 0);
	log_set_file_max(1);
	cr_assert(was >= 0 && dup2(p[1], STDERR_FILENO) >= 0);
	cr_expect(log_has_room(LOG_LEVEL_WARNING));
	(void)dup2(was, STDERR_FILENO);
	(void)close(was);
	(void)close(p[0]);
	(void)close(p[1]);
}
