// SPDX-License-Identifier: Apache-2.0
#include "common/array.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int array_grow_sized(void *array, size_t size, size_t n, size_t *cap,
		     size_t first)
{
	size_t more = *cap ? *cap * 2 : first;
	void *p;

	if (n < *cap)
		return 0;
	if (*cap > SIZE_MAX / 2 || more > PTRDIFF_MAX / size)
		return -ENOMEM;
	memcpy(&p, array, sizeof(p));
	p = reallocarray(p, more, size);
	if (!p)
		return -ENOMEM;
	memcpy(array, &p, sizeof(p));
	*cap = more;
	return 0;
}
