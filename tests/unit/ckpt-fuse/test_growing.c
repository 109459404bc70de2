// SPDX-License-Identifier: Apache-2.0
/* Tests of files of unknown size: written, extended, renamed. */
#include "ckpt_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <malloc.h>

TestSuite(growing, .init = ckpt_setup, .fini = ckpt_teardown, .timeout = 240);

static struct ckpt_writer *begin_growing(const char *path,
					 const struct ckpt_file *base)
{
	const struct ckpt_write_options o = { .size = CKPT_SIZE_UNKNOWN,
					      .attr = { .mode = 0644 },
					      .base = base };
	struct error err = ERROR_INIT;
	struct ckpt_writer *w = NULL;

	cr_assert_eq(ckpt_write_open(store, path, &o, &w, &err), 0, "%s",
		     err.msg);
	return w;
}

static void add(struct ckpt_writer *w, uint64_t u, const char *bytes,
		size_t len)
{
	struct error err = ERROR_INIT;
	uint32_t place;

	cr_assert_eq(ckpt_writer_add(w, u, len, &place, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(ckpt_write_placed(w, u, place, bytes, len, &err), 0, "%s",
		     err.msg);
}

static int commit(struct ckpt_writer *w, const char *path, uint64_t size)
{
	struct error err = ERROR_INIT;
	int rc = ckpt_writer_set_file(w, path, size, &err);

	return rc < 0 ? rc : ckpt_commit(w, NULL, &err);
}

/* Write `size` bytes of `data` from `start` on, behind those of `base`. */
static int put_growing(const char *path, uint64_t start, uint64_t size,
		       const struct ckpt_file *base, uint32_t columns)
{
	struct error err = ERROR_INIT;
	AUTO(ckpt_writer) w = begin_growing(path, base);

	ckpt_writer_cut(w, start / UNIT);
	if (start < size)
		cr_assert_eq(ckpt_writer_begin_segment(w, columns, &err), 0);
	for (uint64_t u = start / UNIT; u * UNIT < size; u++)
		add(w, u, data + u * UNIT,
		    size - u * UNIT < UNIT ? size - u * UNIT : UNIT);
	return commit(w, path, size);
}

Test(growing, files_are_written_in_any_order_and_again)
{
	static const uint64_t order[] = { 5, 0, 3, 1, 0, 4, 2 };
	struct error err = ERROR_INIT;
	AUTO_FREE char *changed = malloc(6 * UNIT);
	AUTO(ckpt_writer) w = begin_growing("f", NULL);
	struct ckpt_file *f;

	cr_assert_not_null(changed);
	cr_assert_eq(ckpt_writer_begin_segment(w, 3, &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(order); i++)
		add(w, order[i], data + order[i] * UNIT + (i == 1), UNIT);
	cr_expect_not(ckpt_writer_can_read(w, 4));
	cr_assert_eq(ckpt_writer_end_segment(w, &err), 0, "%s", err.msg);
	cr_expect(ckpt_writer_can_read(w, 4));
	cr_expect_eq(ckpt_writer_stored(w, 4), UNIT);
	cr_expect_eq(ckpt_writer_read(w, 4, changed, &err), 0, "%s", err.msg);
	cr_expect_eq(memcmp(changed, data + 4 * UNIT, UNIT), 0);
	cr_expect_eq(ckpt_writer_stored(w, 6), 0);
	cr_expect_eq(commit(w, "f", 6 * UNIT), 0);
	expect_file("f", data, 6 * UNIT);
	/* Change two units, which go to a segment of their own. */
	f = open_file("f");
	ckpt_writer_free(w);
	w = begin_growing("f", f);
	ckpt_close(f);
	cr_assert_eq(ckpt_writer_begin_segment(w, 1, &err), 0);
	add(w, 4, data, UNIT);
	add(w, 1, data + 1, UNIT);
	cr_expect_eq(commit(w, "f", 6 * UNIT), 0);
	memcpy(changed, data, 6 * UNIT);
	memcpy(changed + 4 * UNIT, data, UNIT);
	memcpy(changed + UNIT, data + 1, UNIT);
	expect_file("f", changed, 6 * UNIT);
}

Test(growing, files_have_holes_where_nothing_was_written)
{
	struct error err = ERROR_INIT;
	AUTO(ckpt_writer) w = begin_growing("f", NULL);
	AUTO_FREE char *want = calloc(5, UNIT);

	cr_assert_not_null(want);
	cr_assert_eq(ckpt_writer_begin_segment(w, 2, &err), 0);
	add(w, 2, data, 7);
	cr_expect_eq(commit(w, "f", 5 * UNIT - 3), 0);
	memcpy(want + 2 * UNIT, data, 7);
	expect_file("f", want, 5 * UNIT - 3);
}

/* Bytes of the heap; meaningless under a sanitizer. */
static size_t heap_bytes(void)
{
	const struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

Test(growing, files_of_holes_take_no_memory_for_them)
{
	const uint64_t far = (UINT64_C(7) << 40) / UNIT;
	struct error err = ERROR_INIT;
	AUTO(ckpt_writer) w = begin_growing("far", NULL);
	size_t before;

	cr_assert_eq(ckpt_writer_begin_segment(w, 1, &err), 0);
	add(w, 0, data, UNIT);
	before = heap_bytes();
	add(w, far, data, UNIT);
	cr_expect_lt(heap_bytes(), before + MIB);
	/* Cut bytes are a hole if the file grows again. */
	add(w, far + 1, data, UNIT);
	ckpt_writer_cut(w, far + 1);
	add(w, far + 2, data, UNIT);
	cr_expect_eq(ckpt_writer_stored(w, far), UNIT);
	cr_expect_eq(ckpt_writer_stored(w, far + 1), 0);
	cr_expect_eq(ckpt_writer_stored(w, 1), 0);
	ckpt_writer_cut(w, 1);
	cr_expect_eq(ckpt_writer_stored(w, far), 0);
	cr_expect_eq(ckpt_writer_stored(w, 0), UNIT);
	cr_assert_eq(commit(w, "far", UNIT), 0);
}

Test(growing, files_that_are_not_committed_leave_nothing)
{
	struct error err = ERROR_INIT;
	struct ckpt_writer *w = begin_growing("f", NULL);

	for (unsigned int i = 0; i < 2; i++) {
		cr_assert_eq(ckpt_writer_begin_segment(w, 2, &err), 0);
		add(w, 2 * i, data, UNIT);
		add(w, 2 * i + 1, data, UNIT);
		cr_assert_eq(ckpt_writer_end_segment(w, &err), 0);
	}
	cr_expect_eq(n_columns(), 4);
	cr_assert_eq(ckpt_writer_begin_segment(w, 2, &err), 0);
	add(w, 7, data, UNIT);
	ckpt_writer_free(w);
	cr_expect_eq(n_columns(), 0);
	expect_no_file("f");
}

Test(growing, files_of_every_size_come_back)
{
	static const uint64_t sizes[] = { 1, UNIT, UNIT + 1, 3 * UNIT,
					  6 * UNIT + MIB + 17 };
	static const uint32_t columns[] = { 1, 3, 8 };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		for (size_t k = 0; k < ARRAY_SIZE(columns); k++) {
			cr_expect_eq(put_growing("f", 0, sizes[i], NULL,
						 columns[k]),
				     0);
			expect_file("f", data, sizes[i]);
		}
}

Test(growing, files_go_on_behind_whole_units_of_what_is_there)
{
	struct ckpt_file *f;

	(void)put("f", data, 3 * UNIT + 5, 2);
	f = open_file("f");
	cr_expect_eq(put_growing("f", 3 * UNIT, 5 * UNIT + 9, f, 4), 0);
	ckpt_close(f);
	expect_file("f", data, 5 * UNIT + 9);
	f = open_file("f");
	cr_expect_eq(ckpt_file_stat(f)->n_segments, 2);
	cr_expect_eq(ckpt_file_stat(f)->generation, 2);
	/* Shorten the file to the middle of a segment. */
	cr_expect_eq(put_growing("f", UNIT, UNIT + 1, f, 1), 0);
	ckpt_close(f);
	expect_file("f", data, UNIT + 1);
	f = open_file("f");
	cr_expect_eq(put_growing("f", UNIT, UNIT, f, 1), 0);
	ckpt_close(f);
	expect_file("f", data, UNIT);
}

/* Another node removes the file. */
Test(growing,
     files_that_were_removed_go_on_while_gc_has_not_taken_what_was_there)
{
	struct ckpt_gc gc = { .older_ms = 0 };
	struct error err = ERROR_INIT;
	struct ckpt_file *f;

	(void)put("f", data, 3 * UNIT + 5, 2);
	f = open_file("f");
	cr_assert_eq(ckpt_remove(store, "f", &err), 0, "%s", err.msg);
	cr_expect_eq(put_growing("f", 3 * UNIT, 5 * UNIT + 9, f, 4), 0);
	expect_file("f", data, 5 * UNIT + 9);
	cr_assert_eq(ckpt_remove(store, "f", &err), 0, "%s", err.msg);
	cr_assert_eq(ckpt_gc(store, &gc, &err), 0, "%s", err.msg);
	cr_expect_eq(put_growing("f", 3 * UNIT, 5 * UNIT + 9, f, 4), -ESTALE);
	expect_no_file("f");
	cr_expect_eq(n_columns(), 0);
	ckpt_close(f);
}

/* gc has written into the mark that it removes columns which were unnamed for a day. */
Test(growing, files_do_not_go_on_behind_what_is_about_to_be_removed)
{
	struct error err = ERROR_INIT;
	char mark[COLUMN_NAME_MAX];
	struct ckpt_file *f;
	struct manifest *m;

	(void)put("f", data, 3 * UNIT + 5, 2);
	m = manifest_of("f");
	segment_mark_name(m->segments[0].id, mark);
	f = open_file("f");
	cr_assert_eq(ckpt_remove(store, "f", &err), 0, "%s", err.msg);
	put_object(mark, "removed\n", 8);
	cr_expect_eq(put_growing("f", 3 * UNIT, 5 * UNIT + 9, f, 4), -ESTALE);
	expect_no_file("f");
	/* With only an empty mark, the columns can be named again, and the mark is removed. */
	put_object(mark, "", 0);
	cr_expect_eq(put_growing("f", 3 * UNIT, 5 * UNIT + 9, f, 4), 0);
	expect_file("f", data, 5 * UNIT + 9);
	cr_expect_not(is_object(mark));
	manifest_free(m);
	ckpt_close(f);
}

/* Nothing is compared; another writer has replaced the file. */
Test(growing, files_that_were_replaced_do_not_go_on_behind_what_is_gone)
{
	struct ckpt_gc gc = { .older_ms = 0 };
	struct error err = ERROR_INIT;
	struct ckpt_file *f;

	(void)put("f", data, 3 * UNIT + 5, 2);
	f = open_file("f");
	(void)put("f", data + UNIT, 2 * UNIT, 2);
	cr_assert_eq(ckpt_gc(store, &gc, &err), 0, "%s", err.msg);
	cr_expect_eq(put_growing("f", 3 * UNIT, 5 * UNIT + 9, f, 4), -ESTALE);
	expect_file("f", data + UNIT, 2 * UNIT);
	ckpt_close(f);
}

Test(growing, files_go_on_behind_no_plain_object)
{
	struct ckpt_write_options o = { .size = CKPT_SIZE_UNKNOWN };
	struct error err = ERROR_INIT;
	struct ckpt_writer *w = NULL;
	struct ckpt_file *f;

	(void)put("plain", data, MIB, 0);
	f = open_file("plain");
	o.base = f;
	cr_expect_eq(ckpt_write_open(store, "x", &o, &w, &err), -EOPNOTSUPP);
	ckpt_close(f);
}

Test(growing, a_version_is_told_from_another)
{
	struct ckpt_file *a, *b, *c;

	(void)put("f", data, 2 * UNIT, 2);
	(void)put("p", data, 100, 0);
	a = open_file("f");
	b = open_file("f");
	c = open_file("p");
	cr_expect(ckpt_file_is_same(a, b));
	cr_expect_not(ckpt_file_is_same(a, c));
	ckpt_close(b);
	(void)put("f", data, 2 * UNIT, 2);
	b = open_file("f");
	cr_expect_not(ckpt_file_is_same(a, b));
	ckpt_close(a);
	ckpt_close(b);
	ckpt_close(c);
}

/* --------------------------------------------------------------------- renames --- */

static int rename_file(const char *from, const char *to)
{
	struct error err = ERROR_INIT;

	return ckpt_rename(store, from, to, &err);
}

Test(growing, files_are_renamed_over_any_other)
{
	static const uint64_t sizes[] = { 100, 2 * UNIT };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		for (size_t k = 0; k < ARRAY_SIZE(sizes); k++) {
			(void)put("from", data + 1, sizes[i], 0);
			(void)put("d/to", data, sizes[k], 0);
			cr_expect_eq(rename_file("from", "d/to"), 0);
			expect_file("d/to", data + 1, sizes[i]);
			expect_no_file("from");
			cr_expect_neq(is_object("d/to"), is_object("d/to.bsm"));
		}
	cr_expect_eq(rename_file("nothing", "d/to"), -ENOENT);
	cr_expect_eq(rename_file("d/to", "x.bsm"), -EINVAL);
	cr_expect_eq(rename_file("d/to", "d/to"), 0);
	expect_file("d/to", data + 1, 2 * UNIT);
}

Test(growing, a_renamed_file_shows_nothing_that_it_hid)
{
	(void)put("f", data, 2 * UNIT, 0);
	put_object("f", "old", 3);
	cr_expect_eq(rename_file("f", "g"), 0);
	expect_no_file("f");
	expect_file("g", data, 2 * UNIT);
}

/* ------------------------------------------------------------------ attributes --- */

Test(growing, attributes_are_a_striped_files)
{
	const struct ckpt_attr attr = {
		.mode = 0600, .uid = 7, .gid = 8, .mtime_ns = 123456789
	};
	struct error err = ERROR_INIT;
	struct ckpt_stat st;

	(void)put("f", data, 2 * UNIT, 2);
	(void)put("p", data, 10, 0);
	cr_expect_eq(ckpt_set_attr(store, "f", &attr, &err), 0);
	cr_expect_eq(ckpt_stat(store, "f", &st, &err), 0);
	cr_expect_eq(st.attr.mode, 0600);
	cr_expect_eq(st.attr.uid, 7);
	cr_expect_eq(st.attr.gid, 8);
	cr_expect_eq(st.attr.mtime_ns, 123456789);
	cr_expect_eq(st.generation, 2);
	expect_file("f", data, 2 * UNIT);
	cr_expect_eq(ckpt_set_attr(store, "p", &attr, &err), -ENOTSUP);
}

/* --------------------------------------------------------------------- folders --- */

static int count(void *arg, const struct ckpt_entry *e, struct error *err)
{
	++*(int *)arg;
	return 0;
}

static int entries(const char *folder)
{
	struct error err = ERROR_INIT;
	int n = 0;

	cr_expect_eq(ckpt_list(store, folder, count, &n, &err), 0);
	return n;
}

Test(growing, folders_are_renamed_with_all_that_is_in_them)
{
	struct error err = ERROR_INIT;

	(void)put("a/f", data, 2 * UNIT, 0);
	(void)put("a/b/c", data, 10, 0);
	cr_expect_eq(ckpt_folder_make(store, "a/e", &err), 0);
	(void)put("ab", data, 11, 0);
	cr_expect_eq(ckpt_folder_rename(store, "a", "x/y", &err), 0, "%s",
		     err.msg);
	expect_file("x/y/f", data, 2 * UNIT);
	expect_file("x/y/b/c", data, 10);
	expect_file("ab", data, 11);
	cr_expect_eq(ckpt_is_folder(store, "x/y/e", &err), 1);
	cr_expect_eq(ckpt_is_folder(store, "a", &err), 0);
	cr_expect_eq(entries(""), 2);
}

Test(growing, folders_are_there_without_files)
{
	struct error err = ERROR_INIT;

	cr_expect_eq(ckpt_is_folder(store, "d", &err), 0);
	cr_expect_eq(ckpt_folder_make(store, "d", &err), 0);
	/* Only one of several nodes makes the folder. */
	cr_expect_eq(ckpt_folder_make(store, "d", &err), -EEXIST);
	cr_expect_eq(ckpt_is_folder(store, "d", &err), 1);
	cr_expect_eq(entries("d"), 0);
	cr_expect_eq(entries(""), 1);
	(void)put("d/f", data, 10, 0);
	cr_expect_eq(entries("d"), 1);
	cr_expect_eq(ckpt_folder_remove(store, "d", &err), -ENOTEMPTY);
	cr_expect_eq(ckpt_remove(store, "d/f", &err), 0);
	cr_expect_eq(ckpt_is_folder(store, "d", &err), 1);
	cr_expect_eq(ckpt_folder_remove(store, "d", &err), 0);
	cr_expect_eq(ckpt_is_folder(store, "d", &err), 0);
	cr_expect_eq(entries(""), 0);
	cr_expect_eq(ckpt_folder_make(store, ".bootseer", &err), -EINVAL);
	cr_expect_eq(ckpt_remove(store, "d/" FOLDER_MARK, &err), -EINVAL);
}
