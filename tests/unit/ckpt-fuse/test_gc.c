// SPDX-License-Identifier: Apache-2.0
/* Tests that ckpt_gc() removes unnamed columns and nothing else. */
#include "ckpt_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOUR_MS UINT64_C(3600000)

TestSuite(gc, .init = ckpt_setup, .fini = ckpt_teardown, .timeout = 240);

static struct ckpt_gc collect(uint64_t older_ms, bool dry_run)
{
	struct ckpt_gc gc = { .older_ms = older_ms,
			      .dry_run = dry_run,
			      .n_segments = 99,
			      .bytes = 99 };
	struct error err = ERROR_INIT;

	cr_expect_eq(ckpt_gc(store, &gc, &err), 0, "%s", err.msg);
	return gc;
}

static void expect_gc(uint64_t older_ms, bool dry_run, size_t segments,
		      size_t objects, uint64_t bytes)
{
	struct ckpt_gc gc = collect(older_ms, dry_run);

	cr_expect_eq(gc.n_segments, segments, "%zu segments", gc.n_segments);
	cr_expect_eq(gc.n_objects, objects, "%zu objects", gc.n_objects);
	cr_expect_eq(gc.bytes, bytes, "%zu bytes", (size_t)gc.bytes);
}

/* Expect that nothing is removed and so many objects wait for a later call. */
static void expect_waiting(uint64_t older_ms, bool dry_run, size_t objects)
{
	struct ckpt_gc gc = collect(older_ms, dry_run);

	cr_expect_eq(gc.n_objects, 0, "%zu objects", gc.n_objects);
	cr_expect_eq(gc.bytes, 0);
	cr_expect_eq(gc.n_waiting, objects, "%zu wait", gc.n_waiting);
}

static int count_mark(void *arg, const struct object_entry *e,
		      struct error *err)
{
	size_t *n = arg;
	uint8_t id[SEGMENT_ID];

	(void)err;
	*n += segment_mark_parse(e->name, id);
	return 0;
}

static size_t n_marks(void)
{
	struct error err = ERROR_INIT;
	size_t n = 0;

	cr_assert_eq(object_list(store, ".bootseer/data", true, count_mark, &n,
				 &err),
		     0, "%s", err.msg);
	return n;
}

static void remove_file(const char *path)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(ckpt_remove(store, path, &err), 0, "%s", err.msg);
}

/* ------------------------------------------------------- files that are renamed --- */

/* Linked with --wrap: hooks that run while the manifests are listed. */
static void (*before_list)(unsigned int n);
static void (*after_list)(unsigned int n);
static const char *unseen; /* name that the first list does not show */
static unsigned int n_lists;

struct list_call {
	object_list_fn *fn;
	void *arg;
};

static int pass_on(void *arg, const struct object_entry *e, struct error *err)
{
	const struct list_call *c = arg;

	if (unseen && n_lists == 0 && strcmp(e->name, unseen) == 0)
		return 0;
	return c->fn(c->arg, e, err);
}

int __real_object_list(struct object_store *s, const char *folder, bool deep,
		       object_list_fn *fn, void *arg, struct error *err);
int __wrap_object_list(struct object_store *s, const char *folder, bool deep,
		       object_list_fn *fn, void *arg, struct error *err);

int __wrap_object_list(struct object_store *s, const char *folder, bool deep,
		       object_list_fn *fn, void *arg, struct error *err)
{
	struct list_call c = { fn, arg };
	int rc;

	if (*folder)
		return __real_object_list(s, folder, deep, fn, arg, err);
	if (before_list)
		before_list(n_lists);
	rc = __real_object_list(s, folder, deep, pass_on, &c, err);
	if (after_list)
		after_list(n_lists);
	n_lists++;
	return rc;
}

static void rename_last(unsigned int n)
{
	struct error err = ERROR_INIT;

	if (n == 0)
		cr_assert_eq(ckpt_rename(store, "last", "best", &err), 0, "%s",
			     err.msg);
}

Test(gc, leaves_a_file_that_is_renamed_between_the_list_and_its_manifest)
{
	put("last", data, 2 * UNIT, 2);
	make_columns_old();
	after_list = rename_last;
	expect_gc(0, false, 0, 0, 0);
	expect_file("best", data, 2 * UNIT);
}

Test(gc, leaves_a_file_that_the_list_was_past_when_it_was_renamed)
{
	put("best", data, 2 * UNIT, 2);
	make_columns_old();
	unseen = "best.bsm";
	expect_gc(0, false, 0, 0, 0);
	expect_file("best", data, 2 * UNIT);
}

static void rename_each_time(unsigned int n)
{
	char from[16] = "f", to[16];
	struct error err = ERROR_INIT;

	if (n)
		(void)snprintf(from, sizeof(from), "f%u", n);
	(void)snprintf(to, sizeof(to), "f%u", n + 1);
	cr_assert_eq(ckpt_rename(store, from, to, &err), 0, "%s", err.msg);
}

Test(gc, removes_nothing_while_files_are_renamed_without_end)
{
	struct ckpt_gc gc = { .older_ms = 0 };
	struct error err = ERROR_INIT;

	put("f", data, 2 * UNIT, 2);
	put("gone", data, 2 * UNIT, 2);
	remove_file("gone");
	after_list = rename_each_time;
	cr_expect_eq(ckpt_gc(store, &gc, &err), -EBUSY, "%s", err.msg);
	cr_expect_not_null(strstr(err.msg, "nothing was removed"), "%s",
			   err.msg);
	cr_expect_eq(n_columns(), 4);
}

/* ------------------------------------------------------------------------- ages --- */

/* A reader of the file, or a writer that extends it, has all of the time. */
Test(gc, counts_from_when_a_file_was_removed_and_not_from_when_it_was_written)
{
	struct ckpt_file *f;
	struct error err = ERROR_INIT;
	char *got = malloc(2 * UNIT);

	cr_assert_not_null(got);
	put("f", data, 2 * UNIT, 2);
	make_columns_old();
	f = open_file("f");
	remove_file("f");
	expect_waiting(HOUR_MS, true, 2);
	cr_expect_eq(n_marks(), 0, "a dry run marks");
	expect_waiting(HOUR_MS, false, 2);
	expect_waiting(HOUR_MS, false, 2);
	cr_expect_eq(ckpt_read(f, 0, got, 2 * UNIT, 0, &err), 0, "%s", err.msg);
	ckpt_close(f);
	free(got);
	cr_expect_eq(n_marks(), 1);
	make_columns_old();
	expect_gc(HOUR_MS, false, 1, 2, 2 * UNIT);
	cr_expect_eq(n_columns() + n_marks(), 0);
}

Test(gc, counts_anew_when_a_file_was_named_meanwhile)
{
	struct error err = ERROR_INIT;

	put("f", data, 2 * UNIT, 2);
	make_columns_old();
	AUTO_FREE char *manifest = local("f.bsm");
	AUTO_FREE char *away = local(".bootseer/away");

	cr_assert_eq(rename(manifest, away), 0);
	expect_waiting(HOUR_MS, false, 2);
	make_columns_old();
	cr_assert_eq(rename(away, manifest), 0);
	expect_waiting(HOUR_MS, false, 0);
	cr_expect_eq(n_marks(), 0);
	cr_assert_eq(ckpt_remove(store, "f", &err), 0, "%s", err.msg);
	expect_waiting(HOUR_MS, false, 2);
	cr_expect_eq(n_columns(), 2);
}

/* A late commit names a removed file's columns again. */
static void name_again(unsigned int n)
{
	AUTO_FREE char *manifest = local("f.bsm");
	AUTO_FREE char *away = local(".bootseer/away");

	/* The two lists that decide have ended. */
	if (n == 1)
		cr_assert_eq(rename(away, manifest), 0);
}

Test(gc, looks_once_more_before_it_removes)
{
	put("f", data, 2 * UNIT, 2);
	make_columns_old();
	AUTO_FREE char *manifest = local("f.bsm");
	AUTO_FREE char *away = local(".bootseer/away");

	cr_assert_eq(rename(manifest, away), 0);
	expect_waiting(HOUR_MS, false, 2);
	make_columns_old();
	n_lists = 0;
	after_list = name_again;
	expect_gc(HOUR_MS, false, 0, 0, 0);
	expect_file("f", data, 2 * UNIT);
	cr_expect_eq(n_marks(), 0);
}

static void rename_in_the_end(unsigned int n)
{
	if (n >= 2)
		rename_each_time(n - 2);
}

/* Make columns that no manifest names; `mark` is the name of their mark. */
static void make_unnamed(char mark[COLUMN_NAME_MAX])
{
	struct manifest *m;

	put("gone", data, 2 * UNIT, 2);
	m = manifest_of("gone");
	segment_mark_name(m->segments[0].id, mark);
	manifest_free(m);
	remove_file("gone");
}

/* If it is unknown which segments are needed, gc lets writers name all of them. */
Test(gc, takes_back_that_it_is_going_to_remove)
{
	struct ckpt_gc gc = { .older_ms = HOUR_MS };
	struct error err = ERROR_INIT;
	struct object_stat o;
	char mark[COLUMN_NAME_MAX];

	make_unnamed(mark);
	put("f", data, 2 * UNIT, 2);
	make_columns_old();
	expect_waiting(HOUR_MS, false, 2);
	make_columns_old();
	n_lists = 0;
	after_list = rename_in_the_end;
	cr_expect_eq(ckpt_gc(store, &gc, &err), -EBUSY, "%s", err.msg);
	cr_assert_eq(object_stat(store, mark, &o, &err), 0, "%s", err.msg);
	cr_expect_eq(o.size, 0);
	cr_expect_eq(n_columns(), 4);
}

/* A killed gc had written into the mark that it removes the columns. */
Test(gc, goes_on_where_a_killed_one_was)
{
	char mark[COLUMN_NAME_MAX];

	make_unnamed(mark);
	make_columns_old();
	put_object(mark, "removed\n", 8);
	expect_gc(HOUR_MS, false, 1, 2, 2 * UNIT);
	cr_expect_eq(n_columns() + n_marks(), 0);
}

Test(gc, believes_no_mark_that_is_older_than_what_it_marks)
{
	char mark[COLUMN_NAME_MAX];

	make_unnamed(mark);
	put_object(mark, "", 0);
	make_old(mark);
	/* All is older than a millisecond. */
	expect_gc(1, false, 0, 0, 0);
	cr_expect_eq(n_columns(), 2);
}

/* gc was killed when only the mark was left. */
Test(gc, removes_marks_of_what_is_gone)
{
	static const char mark[] =
		".bootseer/data/00/00010203040506070809aabbccddeeff/unnamed";

	put_object(mark, "", 0);
	expect_waiting(HOUR_MS, true, 0);
	cr_expect(is_object(mark));
	expect_waiting(HOUR_MS, false, 0);
	cr_expect_not(is_object(mark));
}

Test(gc, that_nobody_names_are_collected)
{
	expect_gc(0, false, 0, 0, 0);
	put("keep", data, 2 * UNIT + 1, 3);
	put("f", data, 3 * UNIT, 3);
	put("f", data, UNIT + 1, 2); /* three columns are unnamed now */
	cr_assert_eq(n_columns(), 8);
	expect_gc(HOUR_MS, false, 0, 0, 0);
	make_columns_old();
	expect_gc(UINT64_MAX, false, 0, 0, 0);
	expect_gc(INT64_MAX, false, 0, 0, 0);
	expect_gc((uint64_t)INT64_MAX + 1, false, 0, 0, 0);
	expect_waiting(HOUR_MS, false, 3);
	make_columns_old();
	expect_gc(HOUR_MS, true, 1, 3, 3 * UNIT);
	cr_expect_eq(n_columns(), 8, "a dry run removes");
	expect_gc(HOUR_MS, false, 1, 3, 3 * UNIT);
	cr_expect_eq(n_columns(), 5);
	expect_gc(HOUR_MS, false, 0, 0, 0);
	expect_file("keep", data, 2 * UNIT + 1);
	expect_file("f", data, UNIT + 1);
}

/* A store's times may be in whole seconds, and later than its clock. */
Test(gc, of_age_zero_is_of_whatever_age)
{
	struct error err = ERROR_INIT;

	put("f", data, 2 * UNIT, 2);
	cr_assert_eq(ckpt_remove(store, "f", &err), 0, "%s", err.msg);
	make_columns_young();
	expect_gc(1, false, 0, 0, 0);
	expect_gc(0, false, 1, 2, 2 * UNIT);
	cr_expect_eq(n_columns(), 0);
}

/* A segment is as old as its youngest column: the file is still being written. */
Test(gc, that_are_being_written_are_not_collected)
{
	struct error err = ERROR_INIT;
	struct manifest *m;
	char name[COLUMN_NAME_MAX];

	put("f", data, 2 * UNIT, 2);
	m = manifest_of("f");
	cr_assert_eq(ckpt_remove(store, "f", &err), 0, "%s", err.msg);
	column_name(&m->segments[0], 1, name);
	make_old(name);
	expect_gc(HOUR_MS, false, 0, 0, 0);
	column_name(&m->segments[0], 0, name);
	make_old(name);
	expect_waiting(HOUR_MS, false, 2);
	make_columns_old();
	expect_gc(HOUR_MS, false, 1, 2, 2 * UNIT);
	cr_expect_eq(n_columns(), 0);
	manifest_free(m);
}

Test(gc, are_not_collected_while_a_manifest_cannot_be_read)
{
	struct ckpt_gc gc = { .older_ms = 0 };
	struct error err = ERROR_INIT;

	put("gone", data, UNIT + 1, 2);
	cr_assert_eq(ckpt_remove(store, "gone", &err), 0, "%s", err.msg);
	make_columns_old();
	put_object("a/b/sick.bsm", "no manifest", 11);
	cr_expect_eq(ckpt_gc(store, &gc, &err), -EBADMSG, "%s", err.msg);
	cr_expect_not_null(strstr(err.msg, "a/b/sick"), "%s", err.msg);
	cr_expect_not_null(strstr(err.msg, "nothing was removed"), "%s",
			   err.msg);
	cr_expect_eq(gc.n_objects, 0);
	cr_expect_eq(n_columns(), 2);
	cr_expect_eq(n_marks(), 0);
	cr_assert_eq(ckpt_remove(store, "a/b/sick", &err), 0, "%s", err.msg);
	expect_gc(0, false, 1, 2, UNIT + 1);
}

/* A list takes minutes in a large store. */
Test(gc, lists_no_more_often_than_it_has_to)
{
	char mark[COLUMN_NAME_MAX];

	put("f", data, UNIT + 1, 1);
	put_object("f", "plain", 5);
	make_old("f");
	make_unnamed(mark);
	make_columns_old();
	/* The hidden object is removed, the unnamed columns are marked. */
	expect_gc(HOUR_MS, false, 0, 1, 0);
	cr_expect_eq(n_lists, 2);
	make_columns_old();
	n_lists = 0;
	expect_gc(HOUR_MS, false, 1, 2, 2 * UNIT);
	cr_expect_eq(n_lists, 4);
}

Test(gc, that_are_hidden_are_collected)
{
	put("f", data, UNIT + 1, 1);
	put("d/g", data, UNIT + 1, 1);
	put_object("f", "plain", 5);
	put_object("d/g", "plain", 5);
	put_object("plain", "plain", 5);
	make_old("f");
	make_old("plain");
	expect_gc(HOUR_MS, true, 0, 1, 0);
	cr_expect(is_object("f"));
	expect_gc(HOUR_MS, false, 0, 1, 0);
	cr_expect_not(is_object("f"));
	cr_expect(is_object("d/g"), "a young one is collected");
	cr_expect(is_object("plain"), "one that is not hidden is collected");
	expect_file("f", data, UNIT + 1);
}

/* An old plain file gets the name while the lists run. */
static void replace_by_plain(unsigned int n)
{
	struct error err = ERROR_INIT;

	if (n != 1)
		return;
	remove_file("f");
	cr_assert_eq(ckpt_rename(store, "plain", "f", &err), 0, "%s", err.msg);
}

Test(gc, leaves_a_plain_file_that_nothing_hides_any_more)
{
	put("f", data, UNIT + 1, 1);
	put_object("plain", "plain", 5);
	make_old("plain");
	before_list = replace_by_plain;
	expect_gc(HOUR_MS, false, 0, 1, 0);
	cr_expect(is_object("f"));
}

Test(gc, of_others_among_the_data_stay)
{
	static const char *const foreign[] = {
		".bootseer/data/x",
		".bootseer/data/00/c00",
		".bootseer/data/00/00010203040506070809AABBCCDDEEFF/c00",
		".bootseer/data/01/00010203040506070809aabbccddeeff/c00",
		".bootseer/data/00/00010203040506070809aabbccddeeff/c64",
		".bootseer/data/00/00010203040506070809aabbccddeeff/c00x",
		".bootseer/data/00/00010203040506070809aabbccddeeff/x/c00",
		".bootseer/data/00/00010203040506070809aabbccddeeff/unnamed0",
		".bootseer/data/01/00010203040506070809aabbccddeeff/unnamed",
		".bootseer/other",
		"twice.bsm.bsm",
	};
	static const char ours[] =
		".bootseer/data/00/00010203040506070809aabbccddeeff/c63";

	for (size_t i = 0; i < ARRAY_SIZE(foreign); i++) {
		put_object(foreign[i], "x", 1);
		make_old(foreign[i]);
	}
	put_object(ours, "xyz", 3);
	make_old(ours);
	expect_waiting(HOUR_MS, false, 1);
	make_columns_old();
	expect_gc(HOUR_MS, false, 1, 1, 3);
	for (size_t i = 0; i < ARRAY_SIZE(foreign); i++)
		cr_expect(is_object(foreign[i]), "%s", foreign[i]);
	cr_expect_not(is_object(ours));
}
