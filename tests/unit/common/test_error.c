// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "common/error.h"

TestSuite(error, .timeout = 120);

Test(error, set_returns_the_negative_code_and_keeps_errno)
{
	struct error err = ERROR_INIT;

	errno = EPIPE;
	cr_assert_eq(error_set(&err, ENOENT, "no blob %d", 7), -ENOENT);
	cr_expect_eq(errno, EPIPE);
	cr_expect_eq(err.code, ENOENT);
	cr_expect_str_eq(err.msg, "no blob 7");
}

Test(error, errno_ends_the_message_with_the_systems_words)
{
	struct error err = ERROR_INIT;

	errno = EPIPE;
	cr_assert_eq(error_errno(&err, ENOENT, "open '%s'", "/none"), -ENOENT);
	cr_expect_eq(errno, EPIPE);
	cr_expect_eq(err.code, ENOENT);
	cr_expect_str_eq(err.msg, "open '/none': No such file or directory");
}

Test(error, wrap_puts_context_in_front)
{
	struct error err = ERROR_INIT;
	int rc = error_set(&err, EIO, "read");

	cr_assert_eq(error_wrap(&err, rc, "block %d", 3), -EIO);
	cr_expect_str_eq(err.msg, "block 3: read");
}

Test(error, wrap_cuts_what_does_not_fit)
{
	struct error err = ERROR_INIT;
	char longest[ERROR_MSG_MAX * 2];
	int rc;

	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	rc = error_set(&err, EIO, "%s", longest);
	rc = error_wrap(&err, rc, "context");
	cr_expect_eq(rc, -EIO);
	cr_expect_eq(strlen(err.msg), (size_t)ERROR_MSG_MAX - 1);
	cr_expect_eq(strncmp(err.msg, "context: xxx", 12), 0);
}

Test(error, accepts_no_place_for_the_message)
{
	cr_expect_eq(error_set(NULL, EIO, "x"), -EIO);
	cr_expect_eq(error_wrap(NULL, -EIO, "x"), -EIO);
}
