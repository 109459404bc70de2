// SPDX-License-Identifier: Apache-2.0
/*
 * The memory of a mount: staged bytes of files that are written, and bytes that were
 * read ahead.  Any thread.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_BUDGET_H
#define BOOTSEER_CKPT_FUSE_MOUNT_BUDGET_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct budget {
	uint64_t most, most_ahead; /* bytes: of all, of what was read ahead */
	pthread_mutex_t lock;      /* the rest */
	pthread_cond_t given;
	uint64_t used, ahead, peak;
	unsigned int n_waiting; /* for memory to write to */
	uint64_t waited_ns;     /* by all of them together */
};

void budget_init(struct budget *b, uint64_t most, uint64_t most_ahead);
void budget_fini(struct budget *b);

bool budget_take(struct budget *b, uint64_t bytes) MUST_CHECK;
/* For what was not asked for yet; not while somebody waits. */
bool budget_take_ahead(struct budget *b, uint64_t bytes) MUST_CHECK;
/* Wait until it can be taken, and take it; false at the deadline (CLOCK_MONOTONIC). */
bool budget_wait(struct budget *b, uint64_t bytes,
		 int64_t deadline_ns) MUST_CHECK;
void budget_give(struct budget *b, uint64_t bytes);
void budget_give_ahead(struct budget *b, uint64_t bytes);

#endif
