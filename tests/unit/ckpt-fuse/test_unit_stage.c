// SPDX-License-Identifier: Apache-2.0
/* Tests of staged units of a written file. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt-fuse/mount/unit_stage.h"

static struct budget budget;
static struct unit_stage stage;

static void setup(void)
{
	budget_init(&budget, 64 * STAGE_UNIT, 0);
	unit_stage_init(&stage, &budget);
}

static void teardown(void)
{
	unit_stage_fini(&stage);
	budget_fini(&budget);
}

TestSuite(unit_stage, .init = setup, .fini = teardown, .timeout = 60);

static struct staged_unit *have(uint64_t u, size_t need)
{
	struct staged_unit *x = NULL;

	cr_assert_eq(unit_stage_have(&stage, u, need, &x), 0);
	cr_assert_not_null(x);
	return x;
}

/* Stage a unit whose other bytes are in the store. */
static struct staged_unit *have_part(uint64_t u)
{
	struct staged_unit *x = have(u, STAGE_UNIT);

	x->is_whole = false;
	return x;
}

static char byte_at(const struct staged_unit *x, size_t at)
{
	char c = 0;

	staged_read(x, at, &c, 1);
	return c;
}

Test(unit_stage, keeps_units_in_their_order_whatever_order_they_come_in)
{
	static const uint64_t order[] = { 7, 2, 9, 0, 5 };

	for (size_t i = 0; i < 5; i++)
		staged_write(&stage, have(order[i], 1), 0, "x", 1);
	for (size_t i = 1; i < stage.n; i++)
		cr_expect_lt(stage.units[i - 1].u, stage.units[i].u);
	cr_expect_null(unit_stage_find(&stage, 3));
	(void)unit_stage_drop(&stage, unit_stage_find(&stage, 2));
	cr_expect_null(unit_stage_find(&stage, 2));
	cr_expect_eq(stage.n, 4);
	/* A later use has a larger clock. */
	cr_expect_lt(unit_stage_find(&stage, 0)->used,
		     unit_stage_find(&stage, 5)->used);
}

Test(unit_stage, of_a_small_file_is_small_and_grows_with_it)
{
	struct staged_unit *x;

	cr_expect_eq(unit_stage_wants(&stage, 0, 5), 4096);
	staged_write(&stage, have(0, 5), 0, "first", 5);
	cr_expect_eq(unit_stage_wants(&stage, 0, 4096), 0);
	cr_expect_eq(unit_stage_wants(&stage, 0, 5000), 4096);
	x = have(0, 5000);
	staged_write(&stage, x, 4999, "x", 1);
	cr_expect_eq(byte_at(x, 4), 't');
	cr_expect_eq(byte_at(x, 4000), 0);
	cr_expect_eq(byte_at(x, 4999), 'x');
	cr_expect_eq(byte_at(x, STAGE_UNIT - 1), 0);
	cr_expect_eq(unit_stage_wants(&stage, 3, 1), STAGE_UNIT);
}

Test(unit_stage, knows_of_a_part_what_was_written_and_has_the_rest_filled)
{
	struct staged_unit *x = have_part(4);
	char *stored = malloc(STAGE_UNIT);

	cr_assert_not_null(stored);
	memset(stored, 's', STAGE_UNIT);
	staged_write(&stage, x, 100, "abc", 3);
	staged_write(&stage, x, 103, "de", 2);
	staged_write(&stage, x, 50, "z", 1);
	cr_expect_eq(x->n_written, 2);
	cr_expect(staged_has(x, 101, 4));
	cr_expect_not(staged_has(x, 99, 2));
	cr_expect_not(x->is_whole);
	staged_fill(x, stored, 200);
	cr_expect(x->is_whole);
	cr_expect_eq(byte_at(x, 49), 's');
	cr_expect_eq(byte_at(x, 50), 'z');
	cr_expect_eq(byte_at(x, 104), 'e');
	cr_expect_eq(byte_at(x, 105), 's');
	cr_expect_eq(byte_at(x, 199), 's');
	cr_expect_eq(byte_at(x, 200), 0);
	free(stored);
}

Test(unit_stage, that_was_written_all_of_needs_no_fill)
{
	struct staged_unit *x = have_part(1);
	const size_t half = STAGE_UNIT / 2;

	staged_write(&stage, x, half, NULL, half);
	cr_expect_not(staged_is_full(&stage, x));
	staged_write(&stage, x, 0, NULL, half);
	cr_expect(staged_is_full(&stage, x));
	cr_expect(x->is_whole);
}

Test(unit_stage, takes_so_many_pieces_of_a_part_and_any_number_of_a_whole_unit)
{
	struct staged_unit *part = have_part(1), *whole;

	for (unsigned int i = 0; i < STAGE_RANGES_MAX; i++)
		staged_write(&stage, part, i * 100, "x", 1);
	cr_expect_not(staged_can_write(part, 5000, 1));
	cr_expect(staged_can_write(part, 101, 50));
	/* Ranges joined by the write become one. */
	staged_write(&stage, part, 1, NULL, 850);
	cr_expect_eq(part->n_written, STAGE_RANGES_MAX - 8);
	cr_expect(staged_can_write(part, 5000, 1));
	whole = have(2, STAGE_UNIT);
	for (unsigned int i = 0; i < 3 * STAGE_RANGES_MAX; i++)
		staged_write(&stage, whole, i * 100, "x", 1);
	cr_expect_leq(whole->n_written, STAGE_RANGES_MAX);
	cr_expect_eq(byte_at(whole, 4700), 'x');
	cr_expect_eq(byte_at(whole, 4650), 0);
}
