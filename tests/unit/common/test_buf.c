// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "common/buf.h"

TestSuite(buf, .timeout = 120);

Test(buf, grows_and_stays_terminated)
{
	AUTO_BUF b = BUF_INIT;

	for (int i = 0; i < 1000; i++)
		cr_assert_eq(buf_printf(&b, "%d,", i % 10), 0);
	cr_expect_eq(b.len, (size_t)2000);
	cr_expect_eq(b.data[2000], '\0');
	cr_expect_eq(b.data[1999], ',');
}

Test(buf, refuses_to_grow_past_its_limit_and_keeps_its_content)
{
	AUTO_BUF b = { .limit = 4 };

	cr_assert_eq(buf_puts(&b, "abcd"), 0);
	cr_expect_eq(buf_puts(&b, "e"), -EFBIG);
	cr_expect_str_eq(b.data, "abcd");
}

Test(buf, steal_of_an_empty_one_is_an_empty_string)
{
	AUTO_BUF b = BUF_INIT;
	AUTO_FREE char *s = buf_steal(&b);

	cr_assert_not_null(s);
	cr_expect_str_empty(s);
	cr_expect_null(b.data);
}

Test(buf, secret_leaves_nothing_in_its_memory)
{
	AUTO_BUF b = BUF_SECRET_INIT;
	size_t cap;

	cr_assert_eq(buf_puts(&b, "swordfish"), 0);
	buf_reset(&b);
	for (size_t i = 0; i < strlen("swordfish"); i++)
		cr_expect_eq(b.data[i], '\0');

	/* Growing moves the memory, and keeps the text. */
	cr_assert_eq(buf_puts(&b, "swordfish"), 0);
	cap = b.cap;
	cr_assert_eq(buf_reserve(&b, b.cap), 0);
	cr_expect_str_eq(b.data, "swordfish");
	cr_expect_eq(b.len, (size_t)9);
	cr_expect_gt(b.cap, cap);
	buf_fini(&b);
	cr_expect(b.is_secret);
}
