// SPDX-License-Identifier: Apache-2.0
/*
 * The memory of puts under way: one bound for a store, buffers that are used again.
 * All of it is one mapping, so that a kernel's ring can be told of it once.
 */
#ifndef BOOTSEER_OBJECTS_STORE_MEMORY_H
#define BOOTSEER_OBJECTS_STORE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define STORE_MEMORY_ALIGN 4096u

struct store_memory;

int store_memory_new(uint64_t bytes, struct store_memory **ret,
		     struct error *err) MUST_CHECK;
void store_memory_free(struct store_memory *m); /* with every buffer back */

/* Take `size` bytes, page-aligned, waiting until `deadline_ns` for others to give
 * theirs back; 0 does not wait.  NULL: they did not, or it is more than there is. */
void *store_memory_take(struct store_memory *m, size_t size,
			int64_t deadline_ns) MUST_CHECK;
void store_memory_give(struct store_memory *m, void *buf, size_t size);

/* Where it lies. */
void *store_memory_base(const struct store_memory *m, size_t *ret_size);

#endif
