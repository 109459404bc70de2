// SPDX-License-Identifier: Apache-2.0
/* Run a function on several threads and wait for all of them. */
#ifndef BOOTSEER_COMMON_SIDE_BY_SIDE_H
#define BOOTSEER_COMMON_SIDE_BY_SIDE_H

#include "common/error.h"

typedef int side_fn(void *arg, unsigned int index, struct error *err);

#define SIDES_MAX 256u

/* Call `fn` with each of 0..n-1, each on a thread of its own as far as threads can be started, the
 * rest in sequence.  Returns when all calls have ended; a failure is the first one's, with its
 * message. */
int side_by_side(unsigned int n, side_fn *fn, void *arg,
		 struct error *err) MUST_CHECK;

#endif
