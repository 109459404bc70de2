// SPDX-License-Identifier: Apache-2.0
/* Tests of files written by several processes. */
#include "ckpt_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt-fuse/parts.h"

TestSuite(parts, .init = ckpt_setup, .fini = ckpt_teardown, .timeout = 240);

#define FILE_SIZE (5 * UNIT + 1000)
#define N_UNITS 6u

static const uint32_t whole[N_UNITS] = { UNIT, UNIT, UNIT, UNIT, UNIT, 1000 };

/* Make the part of a writer that has every `step`-th unit from `first` on. */
static void write_part(unsigned int first, unsigned int step, struct buf *ret)
{
	const struct ckpt_write_options o = { .size = CKPT_SIZE_UNKNOWN };
	struct error err = ERROR_INIT;
	AUTO(ckpt_writer) w = NULL;
	unsigned int n_laid = 0;
	uint32_t place;

	cr_assert_eq(ckpt_write_open(store, "f", &o, &w, &err), 0);
	if (first < N_UNITS)
		cr_assert_eq(ckpt_writer_begin_segment(w, 2, &err), 0);
	for (unsigned int u = first; u < N_UNITS; u += step) {
		const char *from = data + u * UNIT;
		void *room;

		cr_assert_eq(ckpt_writer_add(w, u, whole[u], &place, &err), 0);
		cr_assert_eq(ckpt_writer_room(w, place, whole[u], &room, &err),
			     0);
		if (room) {
			from = memcpy(room, from, whole[u]);
			n_laid++;
		}
		cr_assert_eq(ckpt_write_placed(w, u, place, from, whole[u],
					       &err),
			     0);
	}
	cr_expect(n_laid || first >= N_UNITS);
	cr_assert_eq(ckpt_writer_give_part(w, FILE_SIZE, ret, &err), 0, "%s",
		     err.msg);
}

static int commit(const struct buf *parts, size_t n, const uint32_t *stored,
		  struct error *err)
{
	const struct ckpt_file_parts p = { .parts = parts,
					   .n = n,
					   .size = FILE_SIZE,
					   .unit = UNIT,
					   .stored = stored,
					   .attr = { .mode = 0640, .uid = 7 } };

	return ckpt_commit_parts(store, "f", &p, err);
}

Test(parts, are_one_file_when_they_are_committed_and_not_before)
{
	struct buf parts[3] = { BUF_INIT, BUF_INIT, BUF_INIT };
	struct error err = ERROR_INIT;
	struct ckpt_gc gc = { .dry_run = true };
	struct ckpt_stat st;

	write_part(0, 2, &parts[0]);
	write_part(1, 2, &parts[1]);
	write_part(N_UNITS, 1, &parts[2]); /* a part without units */
	expect_no_file("f");
	cr_assert_eq(commit(parts, 3, whole, &err), 0, "%s", err.msg);
	expect_file("f", data, FILE_SIZE);
	cr_assert_eq(ckpt_stat(store, "f", &st, &err), 0);
	cr_expect_eq(st.attr.mode, 0640);
	cr_expect_eq(st.attr.uid, 7);
	/* A second commit of the same parts succeeds. */
	cr_assert_eq(commit(parts, 3, whole, &err), 0, "%s", err.msg);
	expect_file("f", data, FILE_SIZE);
	cr_assert_eq(ckpt_gc(store, &gc, &err), 0);
	cr_expect_eq(gc.n_objects, 0);
	for (size_t i = 0; i < 3; i++)
		buf_fini(&parts[i]);
}

Test(parts, that_lack_a_unit_or_overlap_are_no_file)
{
	uint32_t with_hole[N_UNITS] = { UNIT, 0, UNIT, 0, UNIT, 0 };
	struct buf parts[3] = { BUF_INIT, BUF_INIT, BUF_INIT };
	struct error err = ERROR_INIT;

	write_part(0, 2, &parts[0]);
	write_part(0, 1, &parts[1]);
	cr_expect_eq(commit(parts, 1, whole, &err), -EBADMSG);
	cr_expect_eq(commit(parts, 2, whole, &err), -EBADMSG);
	cr_expect_eq(commit(parts, 0, whole, &err), -EBADMSG);
	parts[1].data[parts[1].len / 2] ^= 1;
	cr_expect_eq(commit(parts + 1, 1, whole, &err), -EBADMSG);
	expect_no_file("f");
	cr_assert_eq(commit(parts, 1, with_hole, &err), 0, "%s", err.msg);
	memset(data + UNIT, 0, UNIT);
	memset(data + 3 * UNIT, 0, UNIT);
	memset(data + 5 * UNIT, 0, 1000);
	expect_file("f", data, FILE_SIZE);
	for (size_t i = 0; i < 3; i++)
		buf_fini(&parts[i]);
}

Test(parts, whose_columns_are_gone_are_no_file)
{
	struct buf part = BUF_INIT;
	struct error err = ERROR_INIT;
	struct ckpt_gc gc = { .older_ms = 0 };

	write_part(0, 1, &part);
	/* The first call marks the unnamed columns, the second removes them. */
	cr_assert_eq(ckpt_gc(store, &gc, &err), 0);
	cr_assert_eq(ckpt_gc(store, &gc, &err), 0);
	cr_assert_eq(n_columns(), 0);
	cr_expect_eq(commit(&part, 1, whole, &err), -ESTALE);
	expect_no_file("f");
	buf_fini(&part);
}

/* -------------------------------------------------- units of an earlier file --- */

#define HOUR_MS UINT64_C(3600000)
#define N_NAMED 3u /* of "g", as they are in "f" */

struct places {
	struct ckpt_place at[N_UNITS];
};

static int keep_place(void *arg, uint64_t u, const struct ckpt_place *at,
		      struct error *err)
{
	struct places *p = arg;

	(void)err;
	p->at[u] = *at;
	return 0;
}

/* Write "f" as one part, and get the places of its units. */
static void make_earlier(struct places *ret)
{
	struct buf part = BUF_INIT;
	struct error err = ERROR_INIT;

	write_part(0, 1, &part);
	cr_assert_eq(commit(&part, 1, whole, &err), 0, "%s", err.msg);
	cr_assert_eq(ckpt_part_places(&part, keep_place, ret, &err), 0, "%s",
		     err.msg);
	buf_fini(&part);
	make_columns_old();
}

/* Begin a part of "g" that names the first units of "f"; the other units are its own. */
static int begin_later(const struct places *p, struct ckpt_writer **ret)
{
	const struct ckpt_write_options o = { .size = CKPT_SIZE_UNKNOWN };
	struct error err = ERROR_INIT;

	cr_assert_eq(ckpt_write_open(store, "g", &o, ret, &err), 0);
	for (unsigned int u = 0; u < N_NAMED; u++)
		cr_assert_eq(ckpt_writer_name_unit(*ret, u, &p->at[u], &err), 0,
			     "%s", err.msg);
	return ckpt_writer_check_named(*ret, &err);
}

static void end_later(struct ckpt_writer *w, struct buf *ret)
{
	struct error err = ERROR_INIT;
	uint32_t place;

	cr_assert_eq(ckpt_writer_begin_segment(w, 2, &err), 0);
	for (unsigned int u = N_NAMED; u < N_UNITS; u++) {
		cr_assert_eq(ckpt_writer_add(w, u, whole[u], &place, &err), 0);
		cr_assert_eq(ckpt_write_placed(w, u, place, data + u * UNIT + 9,
					       whole[u], &err),
			     0);
	}
	cr_assert_eq(ckpt_writer_give_part(w, FILE_SIZE, ret, &err), 0, "%s",
		     err.msg);
	ckpt_writer_free(w);
}

static int commit_later(const struct buf *part, struct error *err)
{
	const struct ckpt_file_parts p = { .parts = part,
					   .n = 1,
					   .size = FILE_SIZE,
					   .unit = UNIT,
					   .stored = whole };

	return ckpt_commit_parts(store, "g", &p, err);
}

static void expect_later(void)
{
	char *want = malloc(FILE_SIZE);

	cr_assert_not_null(want);
	memcpy(want, data, N_NAMED * UNIT);
	memcpy(want + N_NAMED * UNIT, data + N_NAMED * UNIT + 9,
	       FILE_SIZE - N_NAMED * UNIT);
	expect_file("g", want, FILE_SIZE);
	free(want);
}

static struct ckpt_gc collect_garbage(uint64_t older_ms)
{
	struct ckpt_gc gc = { .older_ms = older_ms };
	struct error err = ERROR_INIT;

	cr_assert_eq(ckpt_gc(store, &gc, &err), 0, "%s", err.msg);
	return gc;
}

static void remove_file(const char *path)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(ckpt_remove(store, path, &err), 0, "%s", err.msg);
}

Test(parts, name_units_of_an_earlier_file_that_stay_when_it_is_removed)
{
	struct places p;
	struct ckpt_writer *w;
	struct buf part = BUF_INIT;
	struct error err = ERROR_INIT;

	make_earlier(&p);
	cr_assert_eq(begin_later(&p, &w), 0);
	end_later(w, &part);
	cr_assert_eq(commit_later(&part, &err), 0, "%s", err.msg);
	cr_expect_eq(n_columns(), 4);
	expect_later();
	expect_file("f", data, FILE_SIZE);
	remove_file("f");
	for (int i = 0; i < 2; i++) {
		make_columns_old();
		cr_expect_eq(collect_garbage(HOUR_MS).n_objects, 0);
		cr_expect_eq(collect_garbage(0).n_objects, 0);
	}
	expect_later();
	remove_file("g");
	(void)collect_garbage(0);
	cr_expect_eq(n_columns(), 0);
	buf_fini(&part);
}

Test(parts, name_units_of_a_file_that_is_removed_before_they_are_committed)
{
	struct places p;
	struct ckpt_writer *w;
	struct buf part = BUF_INIT;
	struct error err = ERROR_INIT;

	make_earlier(&p);
	cr_assert_eq(begin_later(&p, &w), 0);
	remove_file("f");
	/* gc waits an hour from now on; the file exists before that. */
	cr_expect_eq(collect_garbage(HOUR_MS).n_waiting, 2);
	end_later(w, &part);
	cr_assert_eq(commit_later(&part, &err), 0, "%s", err.msg);
	make_columns_old();
	cr_expect_eq(collect_garbage(HOUR_MS).n_objects, 0);
	cr_expect_eq(collect_garbage(0).n_objects, 0);
	expect_later();
	buf_fini(&part);
}

/* `text` becomes what gc's mark of the first segment says; \"\": that no file names the segment. */
static void mark_earlier(const struct places *p, const char *text)
{
	char name[COLUMN_NAME_MAX];

	segment_mark_name(p->at[0].columns.id, name);
	put_object(name, text, strlen(text));
}

Test(parts, are_no_file_when_gc_goes_for_what_they_name)
{
	struct places p;
	struct ckpt_writer *w;
	struct buf part = BUF_INIT;
	struct error err = ERROR_INIT;

	make_earlier(&p);
	cr_assert_eq(begin_later(&p, &w), 0);
	end_later(w, &part);
	remove_file("f");
	mark_earlier(&p, "removed\n");
	cr_expect_eq(commit_later(&part, &err), -ESTALE);
	expect_no_file("g");
	mark_earlier(&p, "");
	cr_expect_eq(collect_garbage(0).n_objects, 4);
	cr_expect_eq(commit_later(&part, &err), -ESTALE);
	expect_no_file("g");
	buf_fini(&part);
}

/* An existing file of the name, with its own columns, stays unchanged. */
Test(parts, replace_no_file_when_gc_goes_for_what_they_name)
{
	struct places p;
	struct ckpt_writer *w;
	struct buf part = BUF_INIT, before = BUF_INIT;
	struct error err = ERROR_INIT;
	struct ckpt_version version;
	struct ckpt_stat st;
	struct ckpt_file_parts parts = { .parts = &part,
					 .n = 1,
					 .size = FILE_SIZE,
					 .unit = UNIT,
					 .stored = whole };

	make_earlier(&p);
	write_part(0, 1, &before);
	cr_assert_eq(commit_later(&before, &err), 0, "%s", err.msg);
	cr_assert_eq(begin_later(&p, &w), 0);
	end_later(w, &part);
	remove_file("f");
	mark_earlier(&p, "removed\n");
	cr_expect_eq(commit_later(&part, &err), -ESTALE);
	expect_file("g", data, FILE_SIZE);
	cr_assert_eq(ckpt_look(store, "g", &version, &st, &err), 0);
	parts.version = &version;
	cr_expect_eq(ckpt_commit_parts(store, "g", &parts, &err), -ESTALE);
	expect_file("g", data, FILE_SIZE);
	buf_fini(&before);
	buf_fini(&part);
}

/* A file that is found before its commit has checked the columns. */
Test(parts, are_checked_by_whoever_finds_their_file)
{
	char name[COLUMN_NAME_MAX];
	struct error err = ERROR_INIT;
	struct places p;

	make_earlier(&p);
	cr_expect_eq(ckpt_check_columns(store, "f", &err), 0, "%s", err.msg);
	cr_expect_eq(ckpt_check_columns(store, "g", &err), -ENOENT);
	segment_mark_name(p.at[0].columns.id, name);
	/* The mark is removed: gc must make a new one, and sees the file before that. */
	mark_earlier(&p, "");
	cr_expect_eq(ckpt_check_columns(store, "f", &err), 0, "%s", err.msg);
	cr_expect_not(is_object(name));
	mark_earlier(&p, "removed\n");
	cr_expect_eq(ckpt_check_columns(store, "f", &err), -ENOENT);
	cr_expect(is_object(name));
	expect_file("f", data, FILE_SIZE);
}

Test(parts, name_nothing_that_may_go_or_is_gone)
{
	char name[COLUMN_NAME_MAX];
	struct ckpt_segment s = { .columns = 2 };
	struct places p;
	struct ckpt_writer *w;

	make_earlier(&p);
	mark_earlier(&p, "");
	cr_expect_eq(begin_later(&p, &w), -ENOENT);
	ckpt_writer_free(w);
	/* The refused writer has removed neither the mark nor the columns. */
	cr_expect_eq(n_columns(), 2);
	segment_mark_name(p.at[0].columns.id, name);
	cr_expect(is_object(name));
	expect_file("f", data, FILE_SIZE);
	(void)collect_garbage(0);
	cr_expect_eq(begin_later(&p, &w), 0);
	ckpt_writer_free(w);
	/* A column is shorter than its named units. */
	memcpy(s.id, p.at[0].columns.id, sizeof(s.id));
	column_name(&s, 1, name);
	put_object(name, data, 1000);
	cr_expect_eq(begin_later(&p, &w), -ENOENT);
	ckpt_writer_free(w);
	remove_file("f");
	(void)collect_garbage(0);
	(void)collect_garbage(0);
	cr_expect_eq(begin_later(&p, &w), -ENOENT);
	ckpt_writer_free(w);
}

Test(parts, name_units_before_they_have_their_own)
{
	struct places p;
	struct ckpt_writer *w;
	struct error err = ERROR_INIT;

	make_earlier(&p);
	cr_assert_eq(begin_later(&p, &w), 0);
	cr_assert_eq(ckpt_writer_begin_segment(w, 1, &err), 0);
	cr_expect_eq(ckpt_writer_name_unit(w, 5, &p.at[4], &err), -EINVAL);
	ckpt_writer_free(w);
	expect_file("f", data, FILE_SIZE);
}
