// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool is_short;

static void *allocate_with_failures(size_t n)
{
	return is_short ? NULL : malloc(n);
}

#define uthash_malloc(n) allocate_with_failures(n)
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

/* ----------------------------------------------------------------- with a seed --- */

#define KEYS 65536u

/* The longest chain for as many keys as buckets.  For random keys it is about 9. */
static unsigned int longest_chain(const struct hash_seed *s, unsigned int shift,
				  unsigned int bits)
{
	unsigned char *chains = calloc(KEYS, 1);
	unsigned int longest = 0;

	cr_assert(chains);
	for (uint32_t k = 0; k < KEYS; k++) {
		uint8_t key[32] = { 0 };
		uint64_t word = (uint64_t)k << shift;
		size_t at;

		memcpy(key + 8, &word, sizeof(word));
		at = hash_seeded(s, key, sizeof(key)) >> bits & (KEYS - 1);
		if (++chains[at] > longest)
			longest = chains[at];
	}
	free(chains);
	return longest;
}

Test(hash, every_bit_of_a_key_reaches_every_bit_of_its_hash)
{
	struct error err = ERROR_INIT;
	struct hash_seed s;

	cr_assert_eq(hash_seed_new(&s, &err), 0, "%s", err.msg);
	for (unsigned int shift = 0; shift <= 48; shift += 16)
		for (unsigned int bits = 0; bits <= 48; bits += 16)
			cr_expect_lt(longest_chain(&s, shift, bits), 24);
}

Test(hash, keys_that_begin_alike_and_other_seeds_have_other_hashes)
{
	struct error err = ERROR_INIT;
	struct hash_seed s, other;
	const char zeros[16] = { 0 };

	cr_assert_eq(hash_seed_new(&s, &err), 0, "%s", err.msg);
	cr_assert_eq(hash_seed_new(&other, &err), 0, "%s", err.msg);
	cr_expect_eq(hash_seeded(&s, "abc", 3), hash_seeded(&s, "abc", 3));
	cr_expect_neq(hash_seeded(&s, "abc", 3), hash_seeded(&other, "abc", 3));
	for (size_t n = 0; n < sizeof(zeros); n++)
		cr_expect_neq(hash_seeded(&s, zeros, n),
			      hash_seeded(&s, zeros, n + 1));
}
