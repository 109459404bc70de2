// SPDX-License-Identifier: Apache-2.0
/* The last bytes of a file that is written. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt-fuse/mount/tail.h"

#define UNIT 16384u

static struct budget budget;

static void setup(void)
{
	budget_init(&budget, 64 * UNIT, 0);
}

static void teardown(void)
{
	budget_fini(&budget);
}

TestSuite(tail, .init = setup, .fini = teardown, .timeout = 60);

/* All of `len` bytes from `off` on, with the value `c`. */
static void fill(struct tail *t, uint64_t off, size_t len, char c)
{
	char data[UNIT];

	memset(data, c, sizeof(data));
	while (len) {
		size_t n = tail_piece(t, off, len);

		cr_assert_eq(tail_write(t, off, data, n), 0);
		off += n;
		len -= n;
	}
}

static char byte_at(const struct tail *t, uint64_t off)
{
	char c;

	tail_read(t, off, &c, 1);
	return c;
}

Test(tail, holds_what_was_written_last)
{
	struct tail t;

	tail_init(&t, &budget, UNIT, 0);
	fill(&t, 0, 3 * UNIT + 10, 'a');
	fill(&t, UNIT - 5, 10, 'b');
	cr_expect_eq(t.end, 3 * UNIT + 10);
	cr_expect_eq(byte_at(&t, UNIT - 6), 'a');
	cr_expect_eq(byte_at(&t, UNIT - 5), 'b');
	cr_expect_eq(byte_at(&t, UNIT + 4), 'b');
	cr_expect_eq(byte_at(&t, UNIT + 5), 'a');
	tail_fini(&t);
}

Test(tail, gives_the_oldest_unit_when_it_is_whole)
{
	struct tail_unit u;
	struct tail t;

	tail_init(&t, &budget, UNIT, 0);
	fill(&t, 0, UNIT - 1, 'a');
	cr_expect_not(tail_has_whole(&t));
	fill(&t, UNIT - 1, 1, 'b');
	cr_expect(tail_has_whole(&t));
	fill(&t, UNIT, 7, 'c');
	tail_pop(&t, &u);
	cr_expect_eq(u.size, UNIT);
	cr_expect_eq(u.data[0], 'a');
	cr_expect_eq(u.data[UNIT - 1], 'b');
	budget_memory_free(&budget, u.data, u.size);
	cr_expect_eq(tail_start(&t), UNIT);
	cr_expect_not(tail_has_whole(&t));
	cr_expect_eq(byte_at(&t, UNIT + 6), 'c');
	tail_fini(&t);
}

Test(tail, goes_on_in_the_middle_of_a_file)
{
	struct tail t;

	tail_init(&t, &budget, UNIT, 5 * UNIT);
	cr_expect_eq(tail_start(&t), 5 * UNIT);
	fill(&t, 5 * UNIT, UNIT + 1, 'x');
	cr_expect_eq(t.n, 2);
	cr_expect_eq(byte_at(&t, 6 * UNIT), 'x');
	tail_fini(&t);
}

Test(tail, says_how_much_memory_it_will_want)
{
	struct tail t;
	size_t total = 0, sizes = 0;

	tail_init(&t, &budget, UNIT, 0);
	cr_expect_eq(tail_wants(&t, 1), 4096);
	for (uint64_t off = 0; off < 3 * UNIT; off += 1000) {
		size_t n = tail_piece(&t, off, 1000);

		total += tail_wants(&t, off + n);
		fill(&t, off, n, 'a');
		total += tail_wants(&t, off + 1000);
		fill(&t, off + n, 1000 - n, 'a');
	}
	for (size_t i = 0; i < t.n; i++)
		sizes += t.units[i].size;
	cr_expect_eq(total, sizes);
	cr_expect_eq(tail_wants(&t, t.end), 0);
	cr_expect_eq(tail_cut(&t, 0), sizes);
	tail_fini(&t);
}

Test(tail, has_units_that_grow_only_at_the_beginning_of_a_file)
{
	struct tail t;

	tail_init(&t, &budget, UNIT, 0);
	fill(&t, 0, 1, 'a');
	cr_expect_eq(t.units[0].size, 4096);
	fill(&t, 1, UNIT, 'a');
	cr_assert_eq(t.n, 2);
	cr_expect_eq(t.units[0].size, UNIT);
	cr_expect_eq(t.units[1].size, UNIT);
	cr_expect_eq(byte_at(&t, 0), 'a');
	tail_fini(&t);
}

Test(tail, is_cut_and_goes_on_where_it_was_cut)
{
	struct tail t;

	tail_init(&t, &budget, UNIT, 0);
	fill(&t, 0, 3 * UNIT, 'a');
	cr_expect_eq(tail_cut(&t, UNIT + 3), UNIT);
	cr_expect_eq(t.end, UNIT + 3);
	cr_expect_eq(t.n, 2);
	fill(&t, UNIT + 3, UNIT, 'b');
	cr_expect_eq(byte_at(&t, UNIT + 2), 'a');
	cr_expect_eq(byte_at(&t, UNIT + 3), 'b');
	cr_expect_eq(byte_at(&t, 2 * UNIT + 2), 'b');
	cr_expect_eq(tail_cut(&t, UNIT), 2 * UNIT);
	cr_expect_eq(t.n, 1);
	fill(&t, UNIT, 1, 'c');
	cr_expect_eq(byte_at(&t, UNIT), 'c');
	tail_fini(&t);
}

Test(tail, writes_zeros)
{
	struct tail t;

	tail_init(&t, &budget, UNIT, 0);
	fill(&t, 0, 10, 'a');
	cr_assert_eq(tail_write(&t, 5, NULL, 100), 0);
	cr_expect_eq(byte_at(&t, 4), 'a');
	cr_expect_eq(byte_at(&t, 5), 0);
	cr_expect_eq(byte_at(&t, 104), 0);
	cr_expect_eq(t.end, 105);
	tail_fini(&t);
}
