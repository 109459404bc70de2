// SPDX-License-Identifier: Apache-2.0
/*
 * Memory of running puts: limited for each store, with buffers that are reused. It is one mapping,
 * so that io_uring can register it once.
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
/* All buffers must be given back. */
void store_memory_free(struct store_memory *m);

/* Take `size` bytes, page-aligned, waiting until `deadline_ns` for free memory; 0: do not wait.
 * NULL: none became free, or it is more than there is. */
void *store_memory_take(struct store_memory *m, size_t size,
			int64_t deadline_ns) MUST_CHECK;
void store_memory_give(struct store_memory *m, void *buf, size_t size);

/* Address and size of the whole memory. */
void *store_memory_base(const struct store_memory *m, size_t *ret_size);

#endif
