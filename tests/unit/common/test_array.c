// SPDX-License-Identifier: Apache-2.0
#include "common/array.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

TestSuite(array, .timeout = 60);

Test(array, doubles_and_keeps_what_is_in_it)
{
	uint32_t *v = NULL;
	size_t cap = 0;

	for (uint32_t i = 0; i < 100; i++) {
		cr_assert_eq(array_grow(&v, i, &cap, 3), 0);
		v[i] = i;
	}
	cr_expect_eq(cap, 192);
	for (uint32_t i = 0; i < 100; i++)
		cr_expect_eq(v[i], i);
	free(v);
}

Test(array, that_cannot_grow_stays_as_it_was)
{
	uint32_t *v = NULL, *was;
	size_t cap = 0;

	cr_assert_eq(array_grow(&v, 0, &cap, 1), 0);
	was = v;
	v[0] = 7;
	cap = SIZE_MAX / 4;
	cr_expect_eq(array_grow(&v, cap, &cap, 1), -ENOMEM);
	cr_expect(v == was && v[0] == 7 && cap == SIZE_MAX / 4);
	free(v);
}
