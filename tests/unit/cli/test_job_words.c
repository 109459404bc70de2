// SPDX-License-Identifier: Apache-2.0
#include "cli/job_words.h"

#include <criterion/criterion.h>
#include <stdlib.h>

TestSuite(job_words, .timeout = 120);

static char *list[] = { (char[]){ "a" }, (char[]){ "b c" }, NULL };

static void expect_quoted(const char *word, const char *want)
{
	struct job_words w = { .v = NULL };
	AUTO_BUF text = BUF_INIT;

	job_words_add(&w, "%s", word);
	cr_assert_eq(job_words_quote(w.v, &text), 0);
	cr_expect_str_eq(text.data, want);
	job_words_fini(&w);
}

Test(job_words, are_as_a_shell_reads_them)
{
	expect_quoted("s3://b/p?endpoint", "'s3://b/p?endpoint'");
	expect_quoted("--name=a,b%d", "--name=a,b%d");
	expect_quoted("", "''");
	expect_quoted("it's $HOME", "'it'\\''s $HOME'");
	expect_quoted("a\nb", "'a\nb'");
}

Test(job_words, come_one_by_one_with_an_option_or_all)
{
	struct job_words w = { .v = NULL };
	AUTO_BUF text = BUF_INIT;

	job_words_add_each(&w, "--x", list);
	job_words_add_all(&w, list);
	job_words_add_all(&w, NULL);
	cr_expect_eq(w.n, 6);
	cr_expect_null(w.v[6]);
	cr_assert_eq(job_words_quote(w.v, &text), 0);
	cr_expect_str_eq(text.data, "--x a --x 'b c' a 'b c'");
	cr_expect_not(w.is_short);
	job_words_fini(&w);
	cr_expect_null(w.v);
}

Test(job_words, of_an_option_come_with_its_value)
{
	char *options[] = { (char[]){ "--run" },    (char[]){ "/a" },
			    (char[]){ "--runs=1" }, (char[]){ "--run=/b" },
			    (char[]){ "--run" },    NULL };
	struct job_words w = { .v = NULL };
	AUTO_BUF text = BUF_INIT;

	job_words_add_option(&w, options, "--run");
	job_words_add_option(&w, options, "--other");
	job_words_add_option(&w, NULL, "--run");
	cr_assert_eq(job_words_quote(w.v, &text), 0);
	cr_expect_str_eq(text.data, "--run /a --run=/b");
	job_words_fini(&w);
}

Test(job_words, are_as_many_as_are_added)
{
	struct job_words w = { .v = NULL };

	for (int i = 0; i < 1000; i++)
		job_words_add(&w, "%d", i);
	cr_expect_eq(w.n, 1000);
	cr_expect_str_eq(w.v[999], "999");
	cr_expect_null(w.v[1000]);
	job_words_fini(&w);
}
