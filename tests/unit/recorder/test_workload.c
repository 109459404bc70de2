// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <string.h>

#include "recorder/recorder.h"

TestSuite(workload, .timeout = 120);

static char *key(const char *a, const char *b)
{
	const char *argv[] = { a, b };

	return trace_workload_key(argv, (size_t) !!a + !!b);
}

Test(workload, key_is_the_program_and_a_hash_of_all_words)
{
	AUTO_FREE char *got = key("/usr/bin/python3", "train.py");
	AUTO_FREE char *other = key("/usr/bin/python3", "eval.py");

	/* printf '/usr/bin/python3\0train.py\0' | sha256sum */
	cr_expect_str_eq(got, "python3-b76fa584567c");
	cr_expect(strncmp(other, "python3-", 8) == 0);
	cr_expect(strcmp(got, other) != 0);
}

Test(workload, words_that_join_to_the_same_text_differ)
{
	AUTO_FREE char *one = key("a b", NULL);
	AUTO_FREE char *two = key("a", "b");
	AUTO_FREE char *empty = key("a", "");
	AUTO_FREE char *none = key("a", NULL);

	cr_expect(strcmp(one, two) != 0);
	cr_expect(strcmp(empty, none) != 0);
}

Test(workload, key_is_printable_and_short_whatever_the_words)
{
	static char word[5000];
	AUTO_FREE char *odd = key("/opt/my tool\n\xff", NULL);
	AUTO_FREE char *none = key(NULL, NULL);
	AUTO_FREE char *folder = key("/opt/", NULL);
	AUTO_FREE char *big = NULL;

	memset(word, 'w', sizeof(word) - 1);
	big = key(word, word);
	cr_expect(strncmp(odd, "my_tool__-", 10) == 0, "%s", odd);
	/* SHA-256 of nothing. */
	cr_expect_str_eq(none, "default-e3b0c44298fc");
	cr_expect(strncmp(folder, "default-", 8) == 0, "%s", folder);
	cr_expect_eq(strlen(big), 64 + 1 + 12);
}
