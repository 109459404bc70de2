// SPDX-License-Identifier: Apache-2.0
/* Members of a reply as printable text, whatever the reply contains. */
#include <criterion/criterion.h>
#include <string.h>

#include "cli/node_ask.h"

TestSuite(node_ask, .timeout = 60);

static json_t *load_json(const char *text)
{
	json_t *j = json_loads(text, 0, NULL);

	cr_assert(j, "%s", text);
	return j;
}

Test(node_ask, has_a_dash_for_what_an_answer_lacks)
{
	json_t *j = load_json("{\"n\":\"text\",\"t\":1,\"b\":\"true\"}");
	char bytes[PROGRESS_BYTES_MAX], count[PROGRESS_COUNT_MAX];

	cr_expect_str_eq(reply_text(j, "t"), "-");
	cr_expect_str_eq(reply_raw(j, "none"), "-");
	cr_expect_eq(reply_number(j, "n"), 0);
	cr_expect_not(reply_flag(j, "b"));
	cr_expect_str_eq(reply_bytes(j, "none", bytes), "0 B");
	cr_expect_str_eq(reply_count(j, "none", "block", count), "0 blocks");
	cr_expect_str_eq(reply_count(NULL, "none", "block", count), "0 blocks");
	json_decref(j);
}

Test(node_ask, makes_no_order_to_a_terminal_of_a_strangers_text)
{
	json_t *j = load_json("{\"file\":\"a\\u001b[2Jb\"}");

	cr_expect_str_eq(reply_raw(j, "file"), "a\033[2Jb");
	cr_expect_str_eq(reply_text(j, "file"), "a?[2Jb");
	json_decref(j);
}

Test(node_ask, says_numbers_with_their_unit)
{
	json_t *j = load_json("{\"one\":1,\"many\":1536,\"is\":true}");
	char bytes[PROGRESS_BYTES_MAX], count[PROGRESS_COUNT_MAX];

	cr_expect_str_eq(reply_bytes(j, "many", bytes), "1.5 KiB");
	cr_expect_str_eq(reply_count(j, "one", "block", count), "1 block");
	cr_expect_str_eq(reply_count(j, "many", "block", count), "1536 blocks");
	cr_expect(reply_flag(j, "is"));
	json_decref(j);
}
