// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "tests/unit/recorder/make.h"

TestSuite(trace, .timeout = 120);

static struct trace_entry entry(const char *path, uint64_t off)
{
	return (struct trace_entry){ .path = path,
				     .off = off,
				     .len = 4096,
				     .csize = 100,
				     .confidence = TRACE_CERTAIN };
}

static struct trace_builder *builder(void)
{
	struct trace_info info = make_info();
	struct error err = ERROR_INIT;
	struct trace_builder *b;

	cr_assert_eq(trace_builder_new(&info, &b, &err), 0, "%s", err.msg);
	return b;
}

Test(trace, keeps_its_own_copies_and_stores_a_path_once)
{
	AUTO(trace_builder) b = builder();
	AUTO(trace) t = NULL;
	struct error err = ERROR_INIT;
	char path[] = "/bin/x";
	struct trace_entry e = entry(path, 0);

	cr_assert_eq(trace_builder_add(b, &e, &err), 0);
	path[5] = 'y';
	cr_assert_eq(trace_builder_add(b, &e, &err), 0);
	path[5] = 'x';
	e.off = 8192;
	cr_assert_eq(trace_builder_add(b, &e, &err), 0);
	cr_assert_eq(trace_builder_finish(steal_ptr(&b), &t, &err), 0);
	path[5] = 'z';
	cr_assert_eq(t->n, 3);
	cr_expect_str_eq(t->entries[0].path, "/bin/x");
	cr_expect_str_eq(t->entries[1].path, "/bin/y");
	cr_expect_eq(t->entries[0].path, t->entries[2].path);
	cr_expect_eq(t->entries[2].off, 8192);
	cr_expect_str_eq(t->info.workload, "test-1");
	cr_expect_eq(t->info.window_ms, 120000);
}

Test(trace, bad_entries_are_refused_and_leave_what_was_there)
{
	static char longest[TRACE_PATH_MAX + 2];
	struct trace_entry bad[] = {
		entry("", 0),      entry("relative", 0),
		entry(longest, 0), entry("/x", ((uint64_t)1 << 62) + 1),
		entry("/x", 0),    entry("/x", 0),
		entry("/x", 0),    entry("/x", 0),
		entry("/x", 0),
	};
	AUTO(trace_builder) b = builder();
	AUTO(trace) t = NULL;
	struct error err = ERROR_INIT;
	struct trace_entry good;

	memset(longest, 'a', TRACE_PATH_MAX + 1);
	longest[0] = '/';
	bad[4].len = 0;
	bad[5].len = TRACE_BLOCK_MAX + 1;
	bad[6].confidence = 0;
	bad[7].confidence = TRACE_CERTAIN + 1;
	bad[8].csize = TRACE_BLOCK_MAX + 1;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_eq(trace_builder_add(b, &bad[i], &err), -EINVAL,
			     "case %zu", i);
	longest[TRACE_PATH_MAX] = '\0';
	good = entry(longest, (uint64_t)1 << 62);
	cr_expect_eq(trace_builder_add(b, &good, &err), 0);
	cr_assert_eq(trace_builder_finish(steal_ptr(&b), &t, &err), 0);
	cr_expect_eq(t->n, 1);
}

Test(trace, says_who_recorded_or_is_refused)
{
	static char spaced[] = "a b", empty[] = "", bell[] = "a\a";
	static char longest[TRACE_REPO_MAX + 2];
	struct trace_info bad[6];
	struct error err = ERROR_INIT;
	struct trace_builder *b;

	memset(longest, 'a', TRACE_REPO_MAX + 1);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		bad[i] = make_info();
	bad[0].workload = spaced;
	bad[1].workload = empty;
	bad[2].workload = longest;
	bad[3].repo = bell;
	bad[4].repo = longest;
	bad[5].runs = 0;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_eq(trace_builder_new(&bad[i], &b, &err), -EINVAL,
			     "case %zu", i);
}

Test(trace, has_a_limit_in_entries)
{
	AUTO(trace_builder) b = builder();
	AUTO(trace) t = NULL;
	struct error err = ERROR_INIT;
	struct trace_entry e = entry("/x", 0);

	for (size_t i = 0; i < TRACE_ENTRIES_MAX; i++)
		cr_assert_eq(trace_builder_add(b, &e, &err), 0);
	cr_expect_eq(trace_builder_add(b, &e, &err), -ENOSPC);
	cr_assert_eq(trace_builder_finish(steal_ptr(&b), &t, &err), 0);
	cr_expect_eq(t->n, TRACE_ENTRIES_MAX);
}

Test(trace, has_a_limit_in_bytes)
{
	static char path[TRACE_PATH_MAX + 1];
	AUTO(trace_builder) b = builder();
	struct error err = ERROR_INIT;
	size_t n = 0;
	int rc;

	memset(path, 'a', TRACE_PATH_MAX);
	path[0] = '/';
	do {
		struct trace_entry e = entry(path, 0);

		(void)snprintf(path + 1, 8, "%07zu", n++);
		path[8] = 'a';
		rc = trace_builder_add(b, &e, &err);
	} while (rc == 0);
	cr_expect_eq(rc, -ENOSPC);
	cr_expect_lt(n, TRACE_DECODED_MAX / TRACE_PATH_MAX);
	cr_expect_gt(n, TRACE_DECODED_MAX / TRACE_PATH_MAX - 1000);
}
