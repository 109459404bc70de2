// SPDX-License-Identifier: Apache-2.0
/* Arrays that grow. */
#ifndef BOOTSEER_COMMON_ARRAY_H
#define BOOTSEER_COMMON_ARRAY_H

#include <stddef.h>

#include "common/cleanup.h"

/*
 * Make room for element `n` of `*array`, which has room for `*cap` elements and is NULL at first.
 * The capacity starts as `first` and doubles.  Returns 0, or -ENOMEM with the array unchanged.
 */
#define array_grow(array, n, cap, first) \
	array_grow_sized(array, sizeof(**(array)), n, cap, first)

int array_grow_sized(void *array, size_t size, size_t n, size_t *cap,
		     size_t first) MUST_CHECK;

#endif
