// SPDX-License-Identifier: Apache-2.0
/*
 * The memory of a mount: bytes of files being written, and bytes read ahead. Large pieces are kept
 * for reuse, because the kernel clears each new page. Any thread.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_BUDGET_H
#define BOOTSEER_CKPT_FUSE_MOUNT_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/mutex.h"

#define BUDGET_SPARE_MAX 16u /* spare pieces, mostly of 4 MiB */

struct budget_piece {
	void *data;
	size_t size;
};

struct budget {
	/* limits in bytes: of all memory, of bytes read ahead */
	uint64_t most, most_ahead;
	pthread_mutex_t lock; /* protects the members below */
	pthread_cond_t given;
	uint64_t used, ahead, peak;
	unsigned int n_waiting; /* writers that wait for memory */
	uint64_t waited_ns;     /* sum over all waits */
	/* Spare pieces, the most recently used at the end. */
	struct budget_piece spare[BUDGET_SPARE_MAX];
	unsigned int n_spare;
	uint64_t spare_bytes;
};

void budget_init(struct budget *b, uint64_t most, uint64_t most_ahead);
void budget_fini(struct budget *b);

bool budget_take(struct budget *b, uint64_t bytes) MUST_CHECK;
/* Take memory for read-ahead; refused while a writer waits for memory. */
bool budget_take_ahead(struct budget *b, uint64_t bytes) MUST_CHECK;
/* Wait until the bytes can be taken, and take them; false: the deadline (CLOCK_MONOTONIC) has
 * passed. */
bool budget_wait(struct budget *b, uint64_t bytes,
		 int64_t deadline_ns) MUST_CHECK;
void budget_give(struct budget *b, uint64_t bytes);
void budget_give_ahead(struct budget *b, uint64_t bytes);

/* Allocate page-aligned memory, with undefined content, for `size` bytes taken from the budget
 * before. Release it with budget_memory_free(); free() is possible too. Spare pieces are freed
 * if needed, so that they and the memory in use never exceed `most`. NULL: the system has no
 * memory. */
void *budget_memory(struct budget *b, size_t size) MUST_CHECK;
/* Release `data` (may be NULL) of the allocated `size`; call before its bytes are given back to the
 * budget. */
void budget_memory_free(struct budget *b, void *data, size_t size);

#endif
