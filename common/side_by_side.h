// SPDX-License-Identifier: Apache-2.0
/* Work on threads that are waited for. */
#ifndef BOOTSEER_COMMON_SIDE_BY_SIDE_H
#define BOOTSEER_COMMON_SIDE_BY_SIDE_H

#include "common/error.h"

typedef int side_fn(void *arg, unsigned int index, struct error *err);

#define SIDES_MAX 256u

/* Call `fn` with 0..n-1, each on a thread of its own, or, where no more threads are to
 * be had, one after another.  Returns when all have; what the first one that failed
 * returned, with its message. */
int side_by_side(unsigned int n, side_fn *fn, void *arg,
		 struct error *err) MUST_CHECK;

#endif
