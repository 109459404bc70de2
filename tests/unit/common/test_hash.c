// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdlib.h>

static bool is_short;

static void *allocate(size_t n)
{
	return is_short ? NULL : malloc(n);
}

#define uthash_malloc(n) allocate(n)
#include "common/hash.h"

TestSuite(hash, .timeout = 120);

struct item {
	int key;
	UT_hash_handle hh;
};

Test(hash, what_finds_no_memory_is_not_added_and_ends_nothing)
{
	struct item a = { .key = 1 }, b = { .key = 2 };
	struct item *all = NULL, *found;

	is_short = true;
	HASH_ADD_INT(all, key, &a);
	cr_expect_not(hash_has_added(&a));
	cr_expect_eq(HASH_COUNT(all), 0);
	is_short = false;
	HASH_ADD_INT(all, key, &b);
	cr_expect(hash_has_added(&b));
	HASH_FIND_INT(all, &b.key, found);
	cr_expect_eq(found, &b);
	HASH_FIND_INT(all, &a.key, found);
	cr_expect_null(found);
	HASH_DEL(all, &b);
}
