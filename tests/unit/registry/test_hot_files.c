// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <string.h>

#include "registry/hot_files.h"

TestSuite(hot_files, .timeout = 60);

static void add(struct trace_builder *b, const char *path, uint64_t off,
		const char *block, uint32_t at_ms, uint16_t confidence)
{
	struct trace_entry e = { .path = path,
				 .off = off,
				 .len = 100,
				 .at_ms = at_ms,
				 .csize = 10 * (uint32_t)strlen(block),
				 .confidence = confidence };
	struct error err = ERROR_INIT;

	cr_assert_eq(digest_of(block, strlen(block), &e.block), 0);
	cr_assert_eq(trace_builder_add(b, &e, &err), 0, "%s", err.msg);
}

static struct trace_builder *begin(void)
{
	struct trace_info info = { .repo = (char *)(uintptr_t) "h/a",
				   .workload = (char *)(uintptr_t) "w",
				   .runs = 4 };
	struct error err = ERROR_INIT;
	struct trace_builder *b;

	cr_assert_eq(trace_builder_new(&info, &b, &err), 0, "%s", err.msg);
	return b;
}

static struct trace *end(struct trace_builder *b)
{
	struct error err = ERROR_INIT;
	struct trace *t;

	cr_assert_eq(trace_builder_finish(b, &t, &err), 0, "%s", err.msg);
	return t;
}

Test(hot_files, counts_a_block_once_and_for_the_file_that_is_read_first)
{
	struct trace_builder *b = begin();
	struct error err = ERROR_INIT;
	struct hot_summary s;
	struct trace *t;

	add(b, "/b", 0, "one", 5, 1000);
	add(b, "/a", 0, "one", 6, 1000);
	add(b, "/a", 100, "three", 39, 500);
	add(b, "/b", 100, "rare", 90, 499);
	/* The block is rare in the file that reads it first, and hot in another. */
	add(b, "/c", 0, "seven77", 1, 10);
	add(b, "/d", 0, "seven77", 20, 600);
	t = end(b);
	cr_assert_eq(hot_summary_make(t, &s, &err), 0, "%s", err.msg);
	cr_expect_eq(s.entries, 4);
	cr_expect_eq(s.blocks, 3);
	cr_expect_eq(s.stored, 30 + 50 + 70);
	cr_expect_eq(s.bytes, 400);
	cr_expect_eq(s.rare_entries, 2);
	cr_expect_eq(s.rare_blocks, 1);
	cr_expect_eq(s.rare_stored, 40);
	cr_expect_eq(s.last_ms, 39);
	cr_assert_eq(s.n_files, 3);
	cr_expect_str_eq(s.files[0].path, "/d");
	cr_expect_eq(s.files[0].stored, 70);
	cr_expect_str_eq(s.files[1].path, "/a");
	cr_expect_eq(s.files[1].stored, 50);
	cr_expect_eq(s.files[1].blocks, 1);
	cr_expect_eq(s.files[1].bytes, 200);
	cr_expect_eq(s.files[1].first_ms, 6);
	cr_expect_str_eq(s.files[2].path, "/b");
	cr_expect_eq(s.files[2].stored, 30);
	cr_expect_eq(s.files[2].confidence, 1000);
	/* by_time has 40 steps of 1 ms. */
	cr_expect_eq(s.by_time[4], 0);
	cr_expect_eq(s.by_time[5], 30);
	cr_expect_eq(s.by_time[20], 100);
	cr_expect_eq(s.by_time[39], 150);
	hot_summary_fini(&s);
	trace_free(t);
}

Test(hot_files, has_nothing_of_a_trace_that_nobody_shares)
{
	struct trace_builder *b = begin();
	struct error err = ERROR_INIT;
	struct hot_summary s;
	struct trace *t;

	add(b, "/a", 0, "one", 4000000000, 1);
	t = end(b);
	cr_assert_eq(hot_summary_make(t, &s, &err), 0, "%s", err.msg);
	cr_expect_eq(s.n_files, 0);
	cr_expect_eq(s.stored, 0);
	cr_expect_eq(s.last_ms, 0);
	cr_expect_eq(s.by_time[HOT_STEPS - 1], 0);
	hot_summary_fini(&s);
	trace_free(t);
}
