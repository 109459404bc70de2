// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/convert/content.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

TestSuite(content, .timeout = 30);

#define FILE_SIZE 20000u

static uint8_t bytes[FILE_SIZE];

static void fill(void)
{
	memset(bytes, 0, sizeof(bytes));
	for (size_t i = 0; i < 5000; i++)
		bytes[i] = (uint8_t)(i * 7 + 1);
	bytes[12288] = 1;
	bytes[FILE_SIZE - 1] = 2;
}

/* Hash the whole file, in pieces of `step` bytes. */
static struct digest whole(size_t step)
{
	AUTO(content_hash) h = content_hash_new();
	struct digest d;

	cr_assert_not_null(h);
	for (size_t off = 0; off < FILE_SIZE; off += step) {
		size_t n = FILE_SIZE - off < step ? FILE_SIZE - off : step;

		cr_assert_eq(content_hash_add(h, off, bytes + off, n), 0);
	}
	cr_assert_eq(content_hash_final(h, &d), 0);
	return d;
}

Test(content, is_the_same_in_whatever_pieces_it_comes)
{
	struct digest d;

	fill();
	d = whole(FILE_SIZE);
	for (size_t step = 1; step < 9000; step = step * 3 + 1) {
		struct digest is = whole(step);

		cr_expect(digest_equal(&is, &d), "%zu", step);
	}
}

Test(content, is_the_same_with_holes_or_zeros)
{
	AUTO(content_hash) h = content_hash_new();
	struct digest d, is;

	fill();
	d = whole(4096);
	cr_assert_eq(content_hash_add(h, 0, bytes, 5000), 0);
	cr_assert_eq(content_hash_add(h, 12288, bytes + 12288, 1), 0);
	cr_assert_eq(content_hash_add(h, FILE_SIZE - 1, bytes + FILE_SIZE - 1,
				      1),
		     0);
	cr_assert_eq(content_hash_final(h, &is), 0);
	cr_expect(digest_equal(&is, &d));
	/* The hash begins anew for the next file, and a block of zeros counts like a hole. */
	cr_assert_eq(content_hash_add(h, 8192, bytes + 8192, 4096), 0);
	cr_assert_eq(content_hash_final(h, &is), 0);
	cr_assert_eq(content_hash_final(h, &d), 0);
	cr_expect(digest_equal(&is, &d));
}

Test(content, is_another_one_for_any_other_byte_or_place)
{
	AUTO(content_hash) h = content_hash_new();
	struct digest d, is;

	fill();
	d = whole(4096);
	for (size_t at = 0; at < FILE_SIZE; at += 997) {
		bytes[at] ^= 1;
		is = whole(4096);
		cr_expect_not(digest_equal(&is, &d), "%zu", at);
		bytes[at] ^= 1;
	}
	cr_assert_eq(content_hash_add(h, 4096, bytes, 4096), 0);
	cr_assert_eq(content_hash_final(h, &d), 0);
	cr_assert_eq(content_hash_add(h, 0, bytes, 4096), 0);
	cr_assert_eq(content_hash_final(h, &is), 0);
	cr_expect_not(digest_equal(&is, &d));
}

Test(content, refuses_to_go_back)
{
	AUTO(content_hash) h = content_hash_new();

	cr_assert_eq(content_hash_add(h, 100, "ab", 2), 0);
	cr_expect_eq(content_hash_add(h, 101, "b", 1), -EINVAL);
	cr_expect_eq(content_hash_add(h, 102, "c", 1), 0);
}
