// SPDX-License-Identifier: Apache-2.0
/* Arrays that grow. */
#ifndef BOOTSEER_COMMON_ARRAY_H
#define BOOTSEER_COMMON_ARRAY_H

#include <stddef.h>

#include "common/cleanup.h"

/*
 * Room for one more than `n` in `*array`, which has room for `*cap` and is NULL at first:
 * it doubles, beginning with `first`.  0, or -ENOMEM, which leaves it as it was.
 */
#define array_grow(array, n, cap, first) \
	array_grow_sized(array, sizeof(**(array)), n, cap, first)

int array_grow_sized(void *array, size_t size, size_t n, size_t *cap,
		     size_t first) MUST_CHECK;

#endif
