// SPDX-License-Identifier: Apache-2.0
/* Tests the predicted order of reads of torch.save() files. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ckpt-fuse/mount/zip_order.h"
#include "common/buf.h"
#include "common/bytes.h"

#define SIZE (100 * MIB)
#define LEN (4 * MIB)
#define MOST (64 * MIB)
#define LEAST (8 * MIB)

static struct buf dir;

static void teardown(void)
{
	buf_fini(&dir);
}

TestSuite(zip_order, .fini = teardown, .timeout = 60);

static void add(const char *name, uint32_t len, uint32_t off)
{
	unsigned char e[46] = "PK\1\2";

	put_le32(e + 20, len);
	put_le32(e + 24, len);
	put_le16(e + 28, (uint16_t)strlen(name));
	put_le32(e + 42, off);
	cr_assert_eq(buf_append(&dir, e, sizeof(e)), 0);
	cr_assert_eq(buf_append(&dir, name, strlen(name)), 0);
}

/* Tensors 0 to 12, sorted by name, and other entries. */
static struct zip_order *make(void)
{
	static const char *const names[] = { "0", "1", "10", "11", "12",
					     "2", "3", "4",  "5",  "6",
					     "7", "8", "9" };
	struct zip_order *o = NULL;

	add("m/data.pkl", 100, 0);
	for (uint32_t i = 0; i < 13; i++) {
		char name[32];

		snprintf(name, sizeof(name), "m/data/%s", names[i]);
		add(name, LEN - 1024, MIB + i * (uint32_t)LEN);
	}
	add("m/version", 2, 99 * MIB);
	cr_assert_eq(zip_order_new(dir.data, dir.len, SIZE, &o), 0);
	return o;
}

static uint64_t place(unsigned int i)
{
	return MIB + i * LEN;
}

Test(zip_order, is_that_of_the_numbers)
{
	struct zip_order *o = make();
	struct zip_range r;

	cr_expect_not(zip_order_note(o, 0, 4096, LEAST, MOST));
	cr_expect_not(zip_order_note(o, 99 * MIB, 10, LEAST, MOST));
	cr_assert(zip_order_note(o, place(1), 4096, LEAST, MOST));
	/* Expect the rest of tensor 1, then tensor 2, which is stored behind 12. */
	cr_assert(zip_order_next(o, &r));
	cr_expect_eq(r.off, place(1) + 4096);
	cr_assert(zip_order_next(o, &r));
	cr_expect_eq(r.off, place(5));
	cr_assert(zip_order_next(o, &r));
	cr_expect_eq(r.off, place(6));
	cr_expect_not(zip_order_next(o, &r));
	zip_order_free(o);
}

static uint64_t sum_of_ranges(struct zip_order *o)
{
	struct zip_range r;
	uint64_t sum = 0;

	while (zip_order_next(o, &r)) {
		cr_expect_leq(r.off + r.len, SIZE);
		sum += r.len;
	}
	return sum;
}

Test(zip_order, is_followed_as_far_as_it_was_right)
{
	struct zip_order *o = make();

	cr_assert(zip_order_note(o, place(0), 4096, LEAST, MOST));
	cr_expect_eq(sum_of_ranges(o), LEAST);
	cr_expect_eq(sum_of_ranges(o), 0);
	/* The window is four times the bytes read. */
	cr_assert(zip_order_note(o, place(0) + 4096, LEN - 4096, LEAST, MOST));
	cr_expect_eq(sum_of_ranges(o), 4 * LEN + (LEN - 4096) - LEAST);
	cr_assert(zip_order_note(o, place(1), LEN, LEAST, 2 * LEN));
	cr_expect_eq(sum_of_ranges(o), 0);
	zip_order_free(o);
}

Test(zip_order, says_what_is_wanted_last_and_asks_again_for_what_is_gone)
{
	struct zip_order *o = make();
	struct zip_range r;

	cr_assert(zip_order_note(o, place(1), 4096, LEAST, MOST));
	cr_expect_eq(sum_of_ranges(o), LEAST);
	/* Tensor 2 is stored behind 12, which is read last. */
	cr_expect_lt(zip_order_distance(o, place(5), LEN), LEN);
	cr_expect_gt(zip_order_distance(o, place(4), LEN - 1024), 8 * LEN);
	cr_expect_eq(zip_order_distance(o, place(0), LEN - 1024), UINT64_MAX);
	cr_expect_eq(zip_order_distance(o, 99 * MIB, MIB), UINT64_MAX);
	/* The block begins in tensor 12 or in read bytes, and ends in bytes that are needed. */
	cr_expect_lt(zip_order_distance(o, place(5) - MIB, LEN), LEN);
	cr_expect_eq(zip_order_distance(o, place(0) + 3 * MIB, LEN), 0);
	zip_order_lost(o, place(0), LEN - 1024);
	zip_order_lost(o, place(4), LEN - 1024);
	cr_expect_not(zip_order_next(o, &r));
	zip_order_lost(o, place(5) - MIB, LEN);
	cr_assert(zip_order_next(o, &r));
	cr_expect_eq(r.off, place(5));
	zip_order_free(o);
}

Test(zip_order, begins_anew_where_a_reader_goes_elsewhere)
{
	struct zip_order *o = make();
	struct zip_range r;

	cr_assert(zip_order_note(o, place(6), LEN, LEAST, MOST));
	(void)sum_of_ranges(o);
	/* A single late read changes nothing; many do. */
	cr_expect(zip_order_note(o, place(0), 4096, LEAST, MOST));
	cr_expect_eq(sum_of_ranges(o), 0);
	for (unsigned int i = 0; i < 7; i++)
		cr_expect(zip_order_note(o, place(0), 4096, LEAST, MOST));
	cr_assert(zip_order_next(o, &r));
	cr_expect_eq(r.off, place(0) + 4096);
	zip_order_free(o);
}

/* A request begins at a page, whose first bytes belong to the tensor before. */
Test(zip_order, follows_a_request_that_begins_before_its_tensor)
{
	struct zip_order *o = make();
	struct zip_range r;

	cr_assert(zip_order_note(o, place(1), LEN - 1024, LEAST, LEN));
	(void)sum_of_ranges(o);
	/* 2 lies behind 12. */
	cr_assert(zip_order_note(o, place(5) - 512, 128 * KIB, LEAST, MOST));
	cr_assert(zip_order_next(o, &r));
	cr_expect_geq(r.off, place(5));
	cr_expect_lt(r.off, place(7));
	zip_order_free(o);
}

/* The kernel also reads some bytes behind a tensor. */
Test(zip_order, is_not_led_astray_by_what_lies_behind)
{
	struct zip_order *o = make();
	struct zip_range r;

	cr_assert(zip_order_note(o, place(1), LEN - 1024, LEAST, LEN));
	(void)sum_of_ranges(o);
	/* Reads in tensor 10. */
	for (unsigned int i = 0; i < 2; i++)
		cr_assert(zip_order_note(o, place(2) + i * 128 * KIB, 128 * KIB,
					 LEAST, MOST));
	cr_expect_not(zip_order_next(o, &r));
	cr_assert(zip_order_note(o, place(5), LEN - 1024, LEAST, MOST));
	cr_assert(zip_order_next(o, &r));
	cr_expect_geq(r.off, place(5));
	cr_expect_lt(r.off, place(7));
	(void)sum_of_ranges(o);
	/* A reader that continues there has skipped the others. */
	for (unsigned int i = 0; i < 8; i++)
		cr_assert(zip_order_note(o, place(2) + i * 128 * KIB, 128 * KIB,
					 LEAST, MOST));
	cr_assert(zip_order_next(o, &r));
	cr_expect_geq(r.off, place(2) + MIB);
	cr_expect_lt(r.off, place(3) + LEN);
	zip_order_free(o);
}

Test(zip_order, asks_for_few_tensors_where_each_is_small)
{
	struct zip_order *o = NULL;
	struct zip_range r;
	unsigned int n = 0;

	for (uint32_t i = 0; i < 90; i++) {
		char name[32];

		snprintf(name, sizeof(name), "m/data/%u", i);
		add(name, 10, i * (uint32_t)MIB);
	}
	cr_assert_eq(zip_order_new(dir.data, dir.len, SIZE, &o), 0);
	cr_assert(zip_order_note(o, 0, 10, LEAST, MOST));
	while (zip_order_next(o, &r))
		n++;
	cr_expect_leq(n, LEAST / MIB + 2);
	zip_order_free(o);
}

Test(zip_order, is_of_no_file_that_only_looks_like_one)
{
	struct zip_order *o = NULL;

	add("m/data/0", 100, 0);
	cr_expect_eq(zip_order_new(dir.data, dir.len, SIZE, &o), -ENOENT);
	add("m/data/1", 100, UINT32_MAX - 1); /* behind the end */
	add("data/2", 100, 0);
	add("m/data/x3", 100, 0);
	add("m/data/", 100, 0);
	add("m/data/1234567890", 100, 0);
	cr_expect_eq(zip_order_new(dir.data, dir.len, SIZE, &o), -ENOENT);
	add("m/data/4", 100, 200);
	cr_expect_eq(zip_order_new(dir.data, dir.len - 1, SIZE, &o), -EBADMSG);
	cr_expect_eq(zip_order_new(dir.data, dir.len, SIZE, &o), 0);
	zip_order_free(o);
}

Test(zip_order, has_its_directory_before_the_end)
{
	unsigned char tail[98] = { 0 };
	struct zip_range r;

	memcpy(tail + 76, "PK\5\6", 4);
	put_le32(tail + 88, 1000);
	put_le32(tail + 92, 5000);
	cr_assert_eq(zip_find_directory(tail, sizeof(tail), SIZE, &r), 0);
	cr_expect_eq(r.len, 1000);
	cr_expect_eq(r.off, 5000);
	cr_expect_eq(zip_find_directory(tail, sizeof(tail), 5500, &r), -ENOENT);
	cr_expect_eq(zip_find_directory(tail, 97, SIZE, &r), -ENOENT);
	/* Large files have the numbers in another record. */
	memcpy(tail, "PK\6\6", 4);
	memcpy(tail + 56, "PK\6\7", 4);
	put_le64(tail + 40, 7);
	put_le64(tail + 48, 5 * GIB);
	cr_assert_eq(zip_find_directory(tail, sizeof(tail), 6 * GIB, &r), 0);
	cr_expect_eq(r.len, 7);
	cr_expect_eq(r.off, 5 * GIB);
	tail[97] = 1;
	tail[76] = 'x';
	cr_expect_eq(zip_find_directory(tail, sizeof(tail), 6 * GIB, &r),
		     -ENOENT);
}
