// SPDX-License-Identifier: Apache-2.0
/*
 * Which registry is asked now.  One that did not answer a moment ago is asked by one
 * call at a time, so that calls about others find a thread.  Any thread.
 */
#ifndef BOOTSEER_REGISTRY_PATIENCE_H
#define BOOTSEER_REGISTRY_PATIENCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Patience with one registry; begins with zeros. */
struct patience {
	atomic_int_fast64_t silent_until; /* it is taken to hang so long */
	atomic_uint n_asking;
};

/* May it be asked, at `now_ns` (CLOCK_MONOTONIC)?  Then patience_end() follows. */
bool patience_begin(struct patience *p, int64_t now_ns);
void patience_end(struct patience *p, int64_t now_ns, bool has_answered);

#endif
