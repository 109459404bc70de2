// SPDX-License-Identifier: Apache-2.0
/*
 * The memory of a mount: staged bytes of files that are written, and bytes that were
 * read ahead.  Large pieces that are given back are kept for the next ones, because the
 * kernel clears each page that it hands out.  Any thread.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_BUDGET_H
#define BOOTSEER_CKPT_FUSE_MOUNT_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/mutex.h"

#define BUDGET_SPARE_MAX 16u /* pieces of memory; of 4 MiB mostly */

struct budget_piece {
	void *data;
	size_t size;
};

struct budget {
	uint64_t most, most_ahead; /* bytes: of all, of what was read ahead */
	pthread_mutex_t lock;      /* the rest */
	pthread_cond_t given;
	uint64_t used, ahead, peak;
	unsigned int n_waiting; /* for memory to write to */
	uint64_t waited_ns;     /* by all of them together */
	/* Memory that nobody uses, that which was used last at the end. */
	struct budget_piece spare[BUDGET_SPARE_MAX];
	unsigned int n_spare;
	uint64_t spare_bytes;
};

void budget_init(struct budget *b, uint64_t most, uint64_t most_ahead);
void budget_fini(struct budget *b);

bool budget_take(struct budget *b, uint64_t bytes) MUST_CHECK;
/* Take memory for bytes that nobody asked for yet; refused while somebody waits for memory. */
bool budget_take_ahead(struct budget *b, uint64_t bytes) MUST_CHECK;
/* Wait until it can be taken, and take it; false at the deadline (CLOCK_MONOTONIC). */
bool budget_wait(struct budget *b, uint64_t bytes,
		 int64_t deadline_ns) MUST_CHECK;
void budget_give(struct budget *b, uint64_t bytes);
void budget_give_ahead(struct budget *b, uint64_t bytes);

/* Memory for `size` bytes that were taken from the budget before, page-aligned, with
 * anything in it; the caller's until budget_memory_free(), and free() does no harm.  What
 * is kept for others never makes it more than `most` together with what is used.  NULL:
 * the system has none. */
void *budget_memory(struct budget *b, size_t size) MUST_CHECK;
/* Takes `data` (NULL: nothing), of the size that was asked for; before its bytes are given
 * to the budget. */
void budget_memory_free(struct budget *b, void *data, size_t size);

#endif
