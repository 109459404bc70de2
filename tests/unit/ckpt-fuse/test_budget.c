// SPDX-License-Identifier: Apache-2.0
/* Tests the memory of a mount, and the reuse of its pieces. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "ckpt-fuse/mount/budget.h"
#include "common/bytes.h"

#define UNIT ((size_t)(4 * MIB))

static struct budget b;

static void setup(void)
{
	budget_init(&b, 8 * UNIT, 4 * UNIT);
}

static void teardown(void)
{
	budget_fini(&b);
}

TestSuite(budget, .init = setup, .fini = teardown, .timeout = 60);

/* Take bytes from the budget and allocate a piece. */
static void *take_piece(size_t size)
{
	void *data;

	cr_assert(budget_take(&b, size));
	data = budget_memory(&b, size);
	cr_assert_not_null(data);
	return data;
}

static void give_piece(void *data, size_t size)
{
	budget_memory_free(&b, data, size);
	budget_give(&b, size);
}

Test(budget, gives_memory_again_to_whoever_wants_as_much)
{
	void *first = take_piece(UNIT), *other;

	cr_expect_eq((uintptr_t)first % 4096, 0);
	give_piece(first, UNIT);
	cr_expect_eq(b.spare_bytes, UNIT);
	other = take_piece(UNIT / 2);
	cr_expect_eq(b.spare_bytes, UNIT, "it went to one who wanted less");
	cr_expect_eq(take_piece(UNIT - 1), first);
	cr_expect_eq(b.spare_bytes, 0);
	give_piece(other, UNIT / 2);
	give_piece(first, UNIT - 1);
	cr_expect_eq(b.used, 0);
}

Test(budget, keeps_no_small_pieces)
{
	give_piece(take_piece(4096), 4096);
	cr_expect_eq(b.n_spare, 0);
	budget_memory_free(&b, NULL, UNIT);
	cr_expect_eq(b.n_spare, 0);
}

Test(budget, keeps_only_so_many_pieces)
{
	void *data[BUDGET_SPARE_MAX + 3];

	for (size_t i = 0; i < BUDGET_SPARE_MAX + 3; i++) {
		data[i] = budget_memory(&b, MIB);
		cr_assert_not_null(data[i]);
	}
	for (size_t i = 0; i < BUDGET_SPARE_MAX + 3; i++)
		budget_memory_free(&b, data[i], MIB);
	cr_expect_eq(b.n_spare, BUDGET_SPARE_MAX);
	cr_expect_eq(b.spare_bytes, BUDGET_SPARE_MAX * MIB);
}

Test(budget, has_no_more_memory_than_it_may_with_what_it_keeps)
{
	void *units[6], *small[8];

	for (size_t i = 0; i < 6; i++)
		units[i] = take_piece(UNIT);
	for (size_t i = 0; i < 6; i++)
		give_piece(units[i], UNIT);
	cr_expect_eq(b.spare_bytes, 6 * UNIT);
	/* Two units are free; these pieces take four. */
	for (size_t i = 0; i < 8; i++) {
		small[i] = take_piece(UNIT / 2);
		cr_expect_leq(b.used + b.spare_bytes, b.most);
	}
	cr_expect_eq(b.n_spare, 4);
	for (size_t i = 0; i < 8; i++)
		give_piece(small[i], UNIT / 2);
	/* Spare pieces are reused for requests of the same size, without new ones. */
	for (size_t i = 0; i < 4; i++)
		units[i] = take_piece(UNIT);
	for (size_t i = 0; i < 4; i++)
		give_piece(units[i], UNIT);
	cr_expect_leq(b.used + b.spare_bytes, b.most);
}
