// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

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
