// SPDX-License-Identifier: Apache-2.0
/* What nobody names is collected, and nothing else. */
#include "ckpt_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
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

Test(gc, that_nobody_names_are_collected)
{
	expect_gc(0, false, 0, 0, 0);
	put("keep", data, 2 * UNIT + 1, 3);
	put("f", data, 3 * UNIT, 3);
	put("f", data, UNIT + 1, 2); /* three columns are nobody's */
	cr_assert_eq(n_columns(), 8);
	expect_gc(HOUR_MS, false, 0, 0, 0);
	make_columns_old();
	expect_gc(UINT64_MAX, false, 0, 0, 0);
	expect_gc(INT64_MAX, false, 0, 0, 0);
	expect_gc((uint64_t)INT64_MAX + 1, false, 0, 0, 0);
	expect_gc(HOUR_MS, true, 1, 3, 3 * UNIT);
	cr_expect_eq(n_columns(), 8, "a dry run removes");
	expect_gc(HOUR_MS, false, 1, 3, 3 * UNIT);
	cr_expect_eq(n_columns(), 5);
	expect_gc(HOUR_MS, false, 0, 0, 0);
	expect_file("keep", data, 2 * UNIT + 1);
	expect_file("f", data, UNIT + 1);
}

/* A store's clock may be of seconds, and its times later than what it says it is. */
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

/* A segment is as old as its youngest column: the others are still written. */
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
	cr_assert_eq(ckpt_remove(store, "a/b/sick", &err), 0, "%s", err.msg);
	expect_gc(HOUR_MS, false, 1, 2, UNIT + 1);
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
	expect_gc(HOUR_MS, false, 1, 1, 3);
	for (size_t i = 0; i < ARRAY_SIZE(foreign); i++)
		cr_expect(is_object(foreign[i]), "%s", foreign[i]);
	cr_expect_not(is_object(ours));
}
