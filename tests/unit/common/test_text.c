// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <unistd.h>

#include "common/log.h"
#include "common/text.h"

TestSuite(text, .timeout = 120);

Test(text, a_word_is_printable_and_as_long_as_is_allowed)
{
	cr_expect(text_is_word("", 0));
	cr_expect(text_is_word("a~!", 3));
	cr_expect_not(text_is_word("a~!x", 3));
	cr_expect_not(text_is_word("a b", 9));
	cr_expect_not(text_is_word("a\n", 9));
	cr_expect_not(text_is_word("a\x7f", 9));
	cr_expect_not(text_is_word("\xc3\xa4", 9));
}

Test(text, nothing_in_a_printable_text_is_an_order_to_a_terminal)
{
	char text[] = "a\x1b[2J\r\n\x7f \xc2\x9b[m\xc2\xa0\xc3\x9b\xc2";

	text_make_printable(text);
	cr_expect_str_eq(text, "a?[2J??? ??[m\xc2\xa0\xc3\x9b\xc2");
}

Test(text, nothing_in_a_log_line_is_an_order_to_a_terminal)
{
	char line[128] = "";
	int ends[2], saved = dup(STDERR_FILENO);

	cr_assert(saved >= 0 && pipe(ends) == 0);
	cr_assert(dup2(ends[1], STDERR_FILENO) >= 0);
	log_error("x", "a=\"\x1b[2J\n\xc2\x9b[m\xc3\x9b\"");
	cr_assert(dup2(saved, STDERR_FILENO) >= 0);
	cr_assert_gt(read(ends[0], line, sizeof(line) - 1), 0);
	cr_expect_str_eq(line, "error x: a=\"?[2J???[m\xc3\x9b\"\n");
	(void)close(ends[0]);
	(void)close(ends[1]);
	(void)close(saved);
}

static void expect_whole(const char *cut, const char *want)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%s", cut);
	text_end_whole(text);
	cr_expect_str_eq(text, want, "'%s'", cut);
}

Test(text, that_was_cut_ends_with_a_whole_character)
{
	expect_whole("", "");
	expect_whole("plain", "plain");
	expect_whole("\xc3\xa9", "\xc3\xa9");
	expect_whole("a\xe2\x82\xac", "a\xe2\x82\xac");
	expect_whole("\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80");
	expect_whole("a\xc3", "a");
	expect_whole("a\xe2\x82", "a");
	expect_whole("a\xe2", "a");
	expect_whole("a\xf0\x9f\x98", "a");
	/* Continuation bytes without a character are left alone. */
	expect_whole("\x82\x82", "\x82\x82");
}
