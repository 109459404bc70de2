// SPDX-License-Identifier: Apache-2.0
/* Tests which names of lists are cached, and for how long. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ckpt-fuse/mount/listed.h"

#define NOW (INT64_C(1000) * NS_PER_S)

static struct listed *t;
static bool is_out_of_memory;

/* Linked with --wrap: all allocations of ckpt-fuse/ call this. */
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
	return is_out_of_memory ? NULL : __real_calloc(n, size);
}

static void setup(void)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(listed_new(&t, &err), 0, "%s", err.msg);
}

static void teardown(void)
{
	listed_free(t);
}

TestSuite(listed, .init = setup, .fini = teardown, .timeout = 60);

static void add(struct listed_list *l, const char *name, bool is_folder,
		uint64_t size, int64_t asked_ns)
{
	const struct ckpt_entry e = {
		.name = name,
		.is_folder = is_folder,
		.size = size,
		.modified_ms = 5,
		.asked_ns = asked_ns,
	};

	listed_add(l, &e);
}

static void list_one(const char *folder, const char *name)
{
	struct listed_list *l = listed_begin(t, folder);

	cr_assert(l);
	add(l, name, false, 7, NOW);
	listed_end(t, l, 0, NOW);
}

static bool is_known(const char *folder, const char *name, int64_t now_ns)
{
	struct listed_name e;

	return listed_find(t, folder, name, now_ns, &e);
}

Test(listed, tells_what_a_list_told_for_a_second)
{
	struct listed_list *l = listed_begin(t, "d");
	struct listed_name e;

	cr_assert(l);
	add(l, "a", false, 7, NOW);
	add(l, "b", true, 0, NOW + 1);
	listed_end(t, l, 0, NOW);
	cr_assert(listed_find(t, "d", "a", NOW + LISTED_VALID_NS - 1, &e));
	cr_expect_not(e.is_folder);
	cr_expect_eq(e.stat.size, 7);
	cr_expect_eq(e.stat.attr.mtime_ns, 5 * NS_PER_MS);
	cr_expect_eq(e.asked_ns, NOW);
	cr_expect_not(is_known("d", "a", NOW + LISTED_VALID_NS));
	/* The age of a name is that of its page of the list. */
	cr_assert(listed_find(t, "d", "b", NOW + LISTED_VALID_NS, &e));
	cr_expect(e.is_folder);
	cr_expect_not(is_known("d", "c", NOW));
	cr_expect_not(is_known("", "a", NOW));
}

Test(listed, a_file_hides_a_folder_of_its_name)
{
	struct listed_list *l = listed_begin(t, "");
	struct listed_name e;

	add(l, "a", false, 7, NOW);
	add(l, "a", true, 0, NOW);
	listed_end(t, l, 0, NOW);
	cr_assert(listed_find(t, "", "a", NOW, &e));
	cr_expect_not(e.is_folder);
}

Test(listed, what_this_mount_changed_is_not_believed)
{
	struct listed_list *l;

	list_one("", "x");
	list_one("d", "x");
	list_one("d/x", "y");
	list_one("other", "y");
	listed_change(t, "d/x");
	cr_expect_not(is_known("d", "x", NOW));
	cr_expect_not(is_known("d/x", "y", NOW));
	cr_expect(is_known("", "x", NOW));
	cr_expect(is_known("other", "y", NOW));

	/* Names of a list that began before the change are not cached. */
	l = listed_begin(t, "d");
	add(l, "x", false, 7, NOW);
	listed_change(t, "d/new");
	listed_end(t, l, 0, NOW);
	cr_expect_not(is_known("d", "x", NOW));

	l = listed_begin(t, "d");
	add(l, "x", false, 7, NOW);
	listed_change_all(t);
	listed_end(t, l, 0, NOW);
	cr_expect_not(is_known("d", "x", NOW));
	cr_expect_not(is_known("other", "y", NOW));
}

Test(listed, a_list_that_failed_is_not_believed)
{
	struct listed_list *l = listed_begin(t, "d");

	add(l, "x", false, 7, NOW);
	listed_end(t, l, -EIO, NOW);
	cr_expect_not(is_known("d", "x", NOW));
}

/* Look up an existing name that is in no cached list; returns whether a list is wanted. */
static bool ask(int64_t now_ns)
{
	if (listed_is_wanted(t, "d", now_ns))
		return true;
	listed_count(t, "d", now_ns);
	return false;
}

static bool is_wanted_within(unsigned int n, int64_t now_ns)
{
	while (n--)
		if (ask(now_ns))
			return true;
	return false;
}

Test(listed, many_questions_ask_for_a_list_and_few_do_not)
{
	/* Rare look-ups do not cause a list. */
	for (int i = 0; i < 100; i++)
		cr_expect_not(ask(NOW + i * LISTED_VALID_NS));
	/* Look-ups of missing names do not either. */
	for (int i = 0; i < 100; i++)
		cr_expect_not(listed_is_wanted(t, "d", NOW));
	cr_assert(is_wanted_within(4, NOW + 200 * NS_PER_S));
	/* Only one caller at a time makes the list. */
	cr_expect_not(is_wanted_within(100, NOW + 200 * NS_PER_S));
	listed_end(t, listed_begin(t, "d"), 0, NOW + 200 * NS_PER_S);
	cr_expect(is_wanted_within(4, NOW + 200 * NS_PER_S));
	/* A folder with too many names is left alone for a while. */
	listed_end(t, listed_begin(t, "d"), -E2BIG, NOW + 200 * NS_PER_S);
	cr_expect_not(is_wanted_within(100, NOW + 210 * NS_PER_S));
	cr_expect(is_wanted_within(4, NOW + 300 * NS_PER_S));
}

static void list_many(const char *folder, unsigned int n)
{
	struct listed_list *l = listed_begin(t, folder);
	char name[16];

	for (unsigned int i = 0; i < n; i++) {
		(void)snprintf(name, sizeof(name), "f%08u", i);
		add(l, name, false, i, NOW);
	}
	listed_end(t, l, 0, NOW);
}

Test(listed, has_a_bound)
{
	char folder[16];

	list_many("a", 40000);
	list_many("b", 40000);
	cr_expect(is_known("b", "f00039999", NOW));
	cr_expect_not(is_known("a", "f00000000", NOW));
	list_many("c", 70000);
	cr_expect_not(is_known("c", "f00000000", NOW));
	for (unsigned int i = 0; i < 3000; i++) {
		(void)snprintf(folder, sizeof(folder), "d%u", i);
		list_one(folder, "x");
	}
	cr_expect(is_known("d2999", "x", NOW));
	cr_expect_not(is_known("d0", "x", NOW));
	cr_expect_not(is_known("b", "f00039999", NOW));
}

static unsigned int n_asked_until_wanted(void)
{
	for (unsigned int n = 1; n < 100; n++)
		if (ask(NOW))
			return n;
	return 0;
}

Test(listed, a_folder_that_changes_is_listed_again_after_a_share_of_its_names)
{
	cr_assert(is_wanted_within(4, NOW));
	list_many("d", 1600);
	listed_change(t, "d/f00000007");
	cr_expect_not(is_wanted_within(90, NOW));
	cr_expect(is_wanted_within(20, NOW));
}

Test(listed, may_be_tried_again_when_memory_was_short_as_it_began)
{
	unsigned int n = n_asked_until_wanted();

	cr_assert_neq(n, 0);
	is_out_of_memory = true;
	cr_expect_null(listed_begin(t, "d"));
	is_out_of_memory = false;
	cr_expect_eq(n_asked_until_wanted(), n);
	/* No second list begins while one runs. */
	cr_expect_eq(n_asked_until_wanted(), 0);
}
