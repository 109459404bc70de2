// SPDX-License-Identifier: Apache-2.0
/*
 * Limits calls to a registry that timed out a moment ago to one at a time, so that calls about
 * other registries find a free thread. Any thread.
 */
#ifndef BOOTSEER_REGISTRY_PATIENCE_H
#define BOOTSEER_REGISTRY_PATIENCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* State of one registry; initialise with zeros. */
struct patience {
	/* until then the registry is treated as hanging */
	atomic_int_fast64_t silent_until;
	atomic_uint n_asking;
};

/* May the registry be called at `now_ns` (CLOCK_MONOTONIC)? If true, the caller must call
 * patience_end(). */
bool patience_begin(struct patience *p, int64_t now_ns);
void patience_end(struct patience *p, int64_t now_ns, bool has_answered);

#endif
