// SPDX-License-Identifier: Apache-2.0
/* Tests of files being written, truncated at the same time as a close. */
#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt-fuse/mount/writing.h"
#include "ckpt_fixture.h"
#include "common/clock.h"

#define PATIENCE_NS (60 * INT64_C(1000000000))

static struct budget budget;
static struct readings readings;
static struct writings all;

static void setup(void)
{
	struct error err = ERROR_INIT;

	ckpt_setup();
	budget_init(&budget, 64 * MIB, 32 * MIB);
	readings = (struct readings){ .budget = &budget };
	cr_assert_eq(pool_new(NULL, 2, 0, &readings.pool, &err), 0, "%s",
		     err.msg);
	readings_init(&readings);
	all = (struct writings){ .store = store,
				 .budget = &budget,
				 .pool = readings.pool,
				 .tail_most = 32 * MIB,
				 .patience_ns = PATIENCE_NS,
				 .readings = &readings };
	cr_assert_eq(listed_new(&all.listed, &err), 0, "%s", err.msg);
	budget_init(&all.slots, 8, 8);
	TAILQ_INIT(&all.list);
	(void)pthread_mutex_init(&all.lock, NULL);
}

static void teardown(void)
{
	(void)pthread_mutex_destroy(&all.lock);
	budget_fini(&all.slots);
	listed_free(all.listed);
	readings_fini(&readings);
	pool_free(readings.pool);
	cr_expect_eq(budget.used, 0);
	budget_fini(&budget);
	ckpt_teardown();
}

TestSuite(writing, .init = setup, .fini = teardown, .timeout = 120);

static void put_bytes(struct writing *w, const char *s)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(writing_write(w, 0, s, strlen(s), &err), 0, "%s", err.msg);
}

Test(writing, that_is_begun_anew_is_not_stored_by_who_closes_what_was_before)
{
	const struct writing_options o = { .is_new = true };
	struct error err = ERROR_INIT;
	struct writing *w;
	unsigned int n;

	cr_assert_eq(writing_new(&all, "f", &o, &w, &err), 0, "%s", err.msg);
	put_bytes(w, "first");
	n = writing_n_begun(w);
	cr_expect_eq(writing_commit_begun(w, n, &err), 0, "%s", err.msg);
	expect_file("f", "first", 5);
	put_bytes(w, "second");
	cr_expect_eq(writing_begin_anew(w, NULL, &err), 0, "%s", err.msg);
	put_bytes(w, "ha");
	cr_expect_eq(writing_commit_begun(w, n, &err), 0, "%s", err.msg);
	expect_file("f", "first", 5);
	cr_expect(writing_is_dirty(w));
	cr_expect_eq(writing_commit_begun(w, writing_n_begun(w), &err), 0, "%s",
		     err.msg);
	expect_file("f", "ha", 2);
	cr_expect_not(writing_is_dirty(w));
	writing_free(w);
}

/* Write and commit a file of whole units, whose last unit stays staged. */
static struct writing *write_units_of_data(uint64_t n_units)
{
	const struct writing_options o = { .is_new = true };
	struct error err = ERROR_INIT;
	struct writing *w;

	all.tail_most = UNIT;
	cr_assert_eq(writing_new(&all, "f", &o, &w, &err), 0, "%s", err.msg);
	cr_assert_eq(writing_write(w, 0, data, n_units * UNIT, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(writing_commit(w, &err), 0, "%s", err.msg);
	expect_file("f", data, n_units * UNIT);
	return w;
}

static int write_at(struct writing *w, uint64_t off, uint64_t len)
{
	struct error err = ERROR_INIT;

	return writing_write(w, off, data + off, len, &err);
}

static struct writing *open_again(const char *path)
{
	const struct writing_options o = { .is_new = false };
	struct error err = ERROR_INIT;
	struct writing *w;

	cr_assert_eq(writing_new(&all, path, &o, &w, &err), 0, "%s", err.msg);
	return w;
}

/* Its units are smaller than those of a file that begins here. */
Test(writing, goes_on_in_units_of_a_file_that_nodes_have_saved_together)
{
	struct error err = ERROR_INIT;
	struct ckpt_file *f;
	struct writing *w;

	all.tail_most = UNIT;
	put_by_parts("f", data, 5 * UNIT + 1000);
	expect_file("f", data, 5 * UNIT + 1000);
	w = open_again("f");
	data[UNIT + 7] ^= 1;
	cr_expect_eq(write_at(w, UNIT + 7, 1), 0);
	cr_expect_eq(budget.used, MIB);
	cr_expect_eq(writing_commit(w, &err), 0, "%s", err.msg);
	expect_file("f", data, 5 * UNIT + 1000);
	cr_expect_eq(write_at(w, 5 * UNIT, UNIT), 0);
	cr_expect_eq(writing_commit(w, &err), 0, "%s", err.msg);
	cr_expect_eq(writing_truncate(w, UNIT + 5, &err), 0, "%s", err.msg);
	cr_expect_eq(writing_truncate(w, 5 * UNIT, &err), 0, "%s", err.msg);
	cr_expect_eq(write_at(w, UNIT, 5 * UNIT), 0);
	cr_expect_eq(writing_commit(w, &err), 0, "%s", err.msg);
	writing_free(w);
	expect_file("f", data, 6 * UNIT);
	f = open_file("f");
	cr_expect_eq(ckpt_file_unit(f), MIB);
	ckpt_close(f);
}

/* After a cut the file may be one unit, and is staged whole when it is changed again. */
Test(writing, of_small_units_is_cut_to_one_and_begins_anew)
{
	struct error err = ERROR_INIT;
	struct writing *w;

	put_by_parts("f", data, 3 * MIB + 5);
	w = open_again("f");
	cr_expect_eq(write_at(w, 0, MIB), 0);
	cr_expect_eq(writing_truncate(w, 1000, &err), 0, "%s", err.msg);
	cr_expect_eq(writing_commit(w, &err), 0, "%s", err.msg);
	expect_file("f", data, 1000);
	cr_expect_eq(write_at(w, 1000, 2 * UNIT), 0);
	cr_expect_eq(writing_commit(w, &err), 0, "%s", err.msg);
	expect_file("f", data, 2 * UNIT + 1000);
	cr_expect_eq(writing_begin_anew(w, NULL, &err), 0, "%s", err.msg);
	cr_expect_eq(write_at(w, 0, UNIT + 5), 0);
	cr_expect_eq(writing_commit(w, &err), 0, "%s", err.msg);
	expect_file("f", data, UNIT + 5);
	writing_free(w);
}

/* Every file is open and changed in each of its units before the first one is committed. */
Test(writing, of_small_units_leaves_memory_to_others_that_are_changed_at_once)
{
	enum { N_FILES = 5 };
	const uint64_t size = 24 * MIB;
	struct error err = ERROR_INIT;
	struct writing *w[N_FILES];
	char path[] = "f0";

	all.patience_ns = NS_PER_S;
	all.tail_most = UNIT;
	for (unsigned int i = 0; i < N_FILES; i++) {
		path[1] = (char)('0' + i);
		put_by_parts(path, data, size);
		w[i] = open_again(path);
	}
	for (unsigned int i = 0; i < N_FILES; i++)
		for (uint64_t at = 0; at < size; at += MIB) {
			cr_expect_eq(writing_write(w[i], at + i, "changed", 7,
						   &err),
				     0, "%s", err.msg);
			cr_expect_eq(writing_write(w[i], at + MIB / 2, "so", 2,
						   &err),
				     0, "%s", err.msg);
		}
	for (unsigned int i = 0; i < N_FILES; i++) {
		AUTO_FREE char *want = malloc(size);

		cr_assert_not_null(want);
		memcpy(want, data, size);
		for (uint64_t at = 0; at < size; at += MIB) {
			memcpy(want + at + i, "changed", 7);
			memcpy(want + at + MIB / 2, "so", 2);
		}
		path[1] = (char)('0' + i);
		expect_file(path, data, size);
		cr_expect_eq(writing_commit(w[i], &err), 0, "%s", err.msg);
		writing_free(w[i]);
		expect_file(path, want, size);
	}
	cr_expect_leq(budget.peak, budget.most);
}

/* Units that were committed stay staged, in case they are written again. */
Test(writing, that_is_idle_leaves_memory_of_what_is_stored_to_others)
{
	const struct writing_options o = { .is_new = true };
	struct writing *idle, *w;
	struct error err = ERROR_INIT;
	uint64_t others;

	cr_assert_eq(writing_new(&all, "f", &o, &idle, &err), 0);
	cr_expect_eq(write_at(idle, 0, 6 * UNIT), 0);
	cr_expect_eq(writing_commit(idle, &err), 0, "%s", err.msg);
	others = budget.most - budget.used;
	cr_assert(budget_take(&budget, others));
	all.patience_ns = 0;
	cr_assert_eq(writing_new(&all, "g", &o, &w, &err), 0);
	cr_expect_eq(write_at(w, 0, UNIT), 0);
	all.patience_ns = PATIENCE_NS;
	cr_expect_eq(write_at(w, UNIT, 5 * UNIT), 0);
	budget_give(&budget, others);
	cr_expect_eq(writing_commit(w, &err), 0, "%s", err.msg);
	writing_free(w);
	expect_file("g", data, 6 * UNIT);
	data[5 * UNIT] ^= 1;
	cr_expect_eq(write_at(idle, 5 * UNIT, 1), 0);
	cr_expect_eq(writing_commit(idle, &err), 0, "%s", err.msg);
	writing_free(idle);
	expect_file("f", data, 6 * UNIT);
}

/* An idle file whose unit left memory for another may stay open for hours. */
Test(writing, that_is_idle_leaves_columns_to_others)
{
	const struct writing_options o = { .is_new = true };
	struct writing *idle, *w;
	struct error err = ERROR_INIT;
	uint64_t others;

	budget_fini(&all.slots);
	budget_init(&all.slots, 1, 1);
	all.tail_most = UNIT;
	put_by_parts("f", data, 4 * UNIT);
	idle = open_again("f");
	data[7] ^= 1;
	cr_expect_eq(write_at(idle, 7, 1), 0);
	data[UNIT + 7] ^= 1;
	cr_expect_eq(write_at(idle, UNIT + 7, 1), 0);
	others = budget.most - budget.used;
	cr_assert(budget_take(&budget, others));
	cr_assert_eq(writing_new(&all, "g", &o, &w, &err), 0);
	cr_expect_eq(write_at(w, 0, 1000), 0);
	cr_expect_eq(all.slots.used, 1);
	budget_give(&budget, others);
	all.patience_ns = NS_PER_S;
	cr_expect_eq(writing_commit(w, &err), 0, "%s", err.msg);
	writing_free(w);
	expect_file("g", data, 1000);
	cr_expect_eq(writing_commit(idle, &err), 0, "%s", err.msg);
	writing_free(idle);
	expect_file("f", data, 4 * UNIT);
}

/* The bytes in memory are newer than the stored ones, which a change must not read over them. */
Test(writing, of_one_unit_with_attributes_is_changed_after_a_commit)
{
	const struct xattr_change change = { .name = "user.a",
					     .value = "1",
					     .len = 1 };
	const struct writing_options o = { .is_new = true };
	struct error err = ERROR_INIT;
	struct writing *w;

	cr_assert_eq(writing_new(&all, "f", &o, &w, &err), 0);
	cr_assert_eq(writing_change_xattr(w, &change, &err), 0, "%s", err.msg);
	put_bytes(w, "first");
	cr_expect_eq(writing_commit(w, &err), 0, "%s", err.msg);
	expect_file("f", "first", 5);
	put_bytes(w, "second");
	cr_expect_eq(writing_commit(w, &err), 0, "%s", err.msg);
	expect_file("f", "second", 6);
	writing_free(w);
}

/* Tags are not compared here; memory is short, so that the write must send units. */
Test(writing, that_another_has_replaced_does_not_go_on_behind_its_bytes)
{
	struct writing *w = write_units_of_data(4);
	struct error err = ERROR_INIT;
	uint64_t others;

	put("f", data + 1, 4 * UNIT, 2);
	others = budget.most - budget.used;
	cr_assert(budget_take(&budget, others));
	cr_expect_eq(write_at(w, 4 * UNIT, UNIT), -ESTALE);
	budget_give(&budget, others);
	cr_expect_eq(writing_commit(w, &err), -ESTALE, "%s", err.msg);
	expect_file("f", data + 1, 4 * UNIT);
	writing_free(w);
}

Test(writing, goes_on_when_only_attributes_changed_meanwhile)
{
	const struct ckpt_attr attr = { .mode = 0600 };
	struct writing *w = write_units_of_data(4);
	struct error err = ERROR_INIT;

	cr_assert_eq(ckpt_set_attr(store, "f", &attr, &err), 0, "%s", err.msg);
	cr_expect_eq(write_at(w, 4 * UNIT, 2 * UNIT), 0);
	cr_expect_eq(writing_commit(w, &err), 0, "%s", err.msg);
	expect_file("f", data, 6 * UNIT);
	writing_free(w);
}

/* If the rename in the store fails, the file keeps its name. */
Test(writing, is_stored_by_its_name_when_that_could_not_be_changed)
{
	const struct writing_options o = { .is_new = true };
	struct error err = ERROR_INIT;
	struct writing *w;

	cr_assert_eq(writing_new(&all, "f", &o, &w, &err), 0, "%s", err.msg);
	put_bytes(w, "first");
	writing_begin_move(w);
	cr_assert_eq(writing_commit_whole(w, &err), 0, "%s", err.msg);
	expect_file("f", "first", 5);
	writing_end_move(w, false, NULL);
	put_bytes(w, "again");
	cr_expect_eq(writing_commit(w, &err), 0, "%s", err.msg);
	expect_file("f", "again", 5);
	writing_begin_move(w);
	cr_assert_eq(writing_commit_whole(w, &err), 0, "%s", err.msg);
	cr_assert_eq(ckpt_remove(store, "f", &err), 0, "%s", err.msg);
	writing_end_move(w, true, NULL);
	put_bytes(w, "later");
	cr_expect_eq(writing_commit(w, &err), 0, "%s", err.msg);
	expect_no_file("f");
	writing_free(w);
}

/* How many requests for memory succeed before the rest fail. */
static unsigned int takes_left = UINT_MAX;

bool __real_budget_take(struct budget *b, uint64_t bytes);
bool __wrap_budget_take(struct budget *b, uint64_t bytes);
bool __wrap_budget_take(struct budget *b, uint64_t bytes)
{
	if (b == &budget && bytes && takes_left != UINT_MAX) {
		if (takes_left == 0)
			return false;
		takes_left--;
	}
	return __real_budget_take(b, bytes);
}

bool __real_budget_wait(struct budget *b, uint64_t bytes, int64_t deadline_ns);
bool __wrap_budget_wait(struct budget *b, uint64_t bytes, int64_t deadline_ns);
bool __wrap_budget_wait(struct budget *b, uint64_t bytes, int64_t deadline_ns)
{
	return (b != &budget || takes_left) &&
	       __real_budget_wait(b, bytes, deadline_ns);
}

/* After a failed write, the earlier file is better than an incomplete one. */
Test(writing, that_could_not_be_written_to_leaves_the_file_before)
{
	const struct writing_options o = { .is_new = true };
	struct error err = ERROR_INIT;
	struct writing *w;

	put("f", data, 5, 1);
	all.tail_most = UNIT;
	all.patience_ns = 0;
	cr_assert_eq(writing_new(&all, "f", &o, &w, &err), 0, "%s", err.msg);
	put_bytes(w, "first");
	takes_left = 1;
	cr_expect_eq(write_at(w, 4 * UNIT + 1, UNIT), -ENOBUFS);
	takes_left = UINT_MAX;
	cr_expect_eq(writing_state(w, NULL), -ENOBUFS);
	cr_expect_eq(writing_write(w, 0, "more", 4, &err), -ENOBUFS);
	cr_expect_eq(writing_commit(w, &err), -ENOBUFS);
	expect_file("f", data, 5);
	cr_expect_eq(writing_begin_anew(w, NULL, &err), 0, "%s", err.msg);
	put_bytes(w, "again");
	cr_expect_eq(writing_commit(w, &err), 0, "%s", err.msg);
	expect_file("f", "again", 5);
	writing_free(w);
}

Test(writing, that_was_refused_a_far_place_leaves_the_file_before)
{
	const struct writing_options o = { .is_new = true };
	struct error err = ERROR_INIT;
	struct writing *w;

	put("f", data, 5, 1);
	cr_assert_eq(writing_new(&all, "f", &o, &w, &err), 0, "%s", err.msg);
	put_bytes(w, "first");
	cr_expect_eq(writing_write(w, UINT64_C(1) << 44, "x", 1, &err), -EFBIG);
	cr_expect_eq(writing_commit(w, &err), -EFBIG);
	expect_file("f", data, 5);
	writing_free(w);
}

/* Write to the file and to the expected bytes. */
static void write_both(struct writing *w, char *want, uint64_t off, size_t len,
		       unsigned int from)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(writing_write(w, off, data + from, len, &err), 0, "%s",
		     err.msg);
	memcpy(want + off, data + from, len);
}

Test(writing, is_written_again_where_it_left_long_ago)
{
	const struct writing_options o = { .is_new = true };
	struct error err = ERROR_INIT;
	AUTO_FREE char *want = calloc(1, 6 * UNIT);
	AUTO_FREE char *got = malloc(6 * UNIT);
	struct writing *w;

	cr_assert(want && got);
	all.tail_most = UNIT;
	cr_assert_eq(writing_new(&all, "f", &o, &w, &err), 0, "%s", err.msg);
	write_both(w, want, 0, 6 * UNIT - 5, 0);
	/* Overwrite earlier bytes, like headers of a zip member or of a file. */
	write_both(w, want, 10, 30, 500);
	write_both(w, want, 2 * UNIT - 10, 40, 501);
	cr_expect_eq(writing_read(w, UNIT, got, 3 * UNIT, &err),
		     (int64_t)(3 * UNIT));
	cr_expect_eq(memcmp(got, want + UNIT, 3 * UNIT), 0);
	write_both(w, want, 3 * UNIT + 7, 1000, 502);
	cr_expect_eq(writing_commit(w, &err), 0, "%s", err.msg);
	expect_file("f", want, 6 * UNIT - 5);
	/* Write again after the commit. */
	write_both(w, want, UNIT / 2, 100, 503);
	cr_expect_eq(writing_commit(w, &err), 0, "%s", err.msg);
	expect_file("f", want, 6 * UNIT - 5);
	writing_free(w);
	cr_assert_eq(writing_new(&all, "f", &(struct writing_options){ 0 }, &w,
				 &err),
		     0);
	write_both(w, want, 4 * UNIT, 9, 504);
	cr_expect_eq(writing_commit(w, &err), 0, "%s", err.msg);
	expect_file("f", want, 6 * UNIT - 5);
	writing_free(w);
}

Test(writing, is_written_by_several_far_apart)
{
	const struct writing_options o = { .is_new = true };
	struct error err = ERROR_INIT;
	const uint64_t part = 3 * UNIT / 2, step = UNIT / 8;
	AUTO_FREE char *want = calloc(1, 4 * part);
	struct writing *w;

	cr_assert_not_null(want);
	all.tail_most = UNIT;
	cr_assert_eq(writing_new(&all, "f", &o, &w, &err), 0, "%s", err.msg);
	for (uint64_t at = 0; at < part; at += step)
		for (unsigned int i = 0; i < 4; i++)
			write_both(w, want, i * part + at, step, i);
	cr_expect_eq(writing_commit(w, &err), 0, "%s", err.msg);
	expect_file("f", want, 4 * part);
	writing_free(w);
}

/* Parts of more units than fit into memory are completed by reads from the store. */
Test(writing, takes_no_more_memory_for_pieces_here_and_there)
{
	const struct writing_options o = { .is_new = true };
	struct error err = ERROR_INIT;
	AUTO_FREE char *want = calloc(1, 6 * UNIT);
	struct writing *w;
	uint64_t others;

	cr_assert_not_null(want);
	all.tail_most = UNIT;
	cr_assert_eq(writing_new(&all, "f", &o, &w, &err), 0, "%s", err.msg);
	write_both(w, want, 0, 6 * UNIT, 0);
	cr_assert_eq(writing_commit(w, &err), 0, "%s", err.msg);
	others = budget.most - budget.used - 2 * UNIT;
	cr_assert(budget_take(&budget, others));
	for (unsigned int k = 0; k < 5; k++)
		for (unsigned int i = 0; i < 6; i++)
			write_both(w, want, i * UNIT + 1000 * k, 11,
				   13 * k + i);
	budget_give(&budget, others);
	cr_expect_eq(writing_commit(w, &err), 0, "%s", err.msg);
	expect_file("f", want, 6 * UNIT);
	writing_free(w);
}

Test(writing, has_zeros_where_it_was_cut_and_grew_again)
{
	const struct writing_options o = { .is_new = true };
	struct error err = ERROR_INIT;
	AUTO_FREE char *want = calloc(1, 4 * UNIT);
	struct writing *w;

	cr_assert_not_null(want);
	all.tail_most = UNIT;
	cr_assert_eq(writing_new(&all, "f", &o, &w, &err), 0, "%s", err.msg);
	for (unsigned int i = 0; i < 2; i++) {
		write_both(w, want, 0, 4 * UNIT - 9, i);
		if (i)
			cr_assert_eq(writing_commit(w, &err), 0);
		cr_assert_eq(writing_truncate(w, UNIT + 100, &err), 0, "%s",
			     err.msg);
		if (i)
			cr_assert_eq(writing_commit(w, &err), 0);
		cr_assert_eq(writing_truncate(w, 3 * UNIT + 5, &err), 0, "%s",
			     err.msg);
		memset(want + UNIT + 100, 0, 3 * UNIT - 100);
		write_both(w, want, UNIT + 200, 10, 3);
		cr_expect_eq(writing_commit(w, &err), 0, "%s", err.msg);
		expect_file("f", want, 3 * UNIT + 5);
	}
	writing_free(w);
}

/* A small file is striped only because of its attributes. */
Test(writing, becomes_plain_when_all_may_read_it)
{
	struct writing_options o = { .is_new = true, .attr = { .mode = 0600 } };
	const struct ckpt_attr all_may = { .mode = 0644 };
	struct error err = ERROR_INIT;
	struct ckpt_stat st;
	struct writing *w;

	cr_assert_eq(writing_new(&all, "f", &o, &w, &err), 0, "%s", err.msg);
	put_bytes(w, "secret");
	cr_assert_eq(writing_commit(w, &err), 0, "%s", err.msg);
	writing_free(w);
	cr_assert_eq(ckpt_stat(store, "f", &st, &err), 0, "%s", err.msg);
	cr_expect(st.is_striped);
	o.is_new = false;
	cr_assert_eq(writing_new(&all, "f", &o, &w, &err), 0, "%s", err.msg);
	cr_assert_eq(writing_keep_attr(w, &all_may, &err), 0, "%s", err.msg);
	cr_assert_eq(writing_commit(w, &err), 0, "%s", err.msg);
	writing_free(w);
	expect_file("f", "secret", 6);
	cr_assert_eq(ckpt_stat(store, "f", &st, &err), 0, "%s", err.msg);
	cr_expect_not(st.is_striped);
}
