// SPDX-License-Identifier: Apache-2.0
/* Processes items on several threads, and writes the results in order. */
#ifndef BOOTSEER_IMAGE_WRITER_ORDERED_POOL_H
#define BOOTSEER_IMAGE_WRITER_ORDERED_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define ORDERED_POOL_JOBS_MAX 64

struct ordered_pool_item {
	uint8_t *in;
	uint32_t in_len;
	uint8_t *out;
	uint32_t out_len; /* set by work() */
	uint32_t tag;     /* free for the user */
};

struct ordered_pool_config {
	unsigned int jobs; /* threads, 1..ORDERED_POOL_JOBS_MAX */
	size_t in_cap, out_cap;
	void *arg;
	/* Make a thread's working state; NULL when memory is short. */
	void *(*worker_new)(void *arg);
	void (*worker_free)(void *worker);
	/* Process `in` to `out`; called on any thread, several at once. */
	int (*work)(void *arg, void *worker, struct ordered_pool_item *item,
		    struct error *err);
	/* Write a result; called on any thread, one at a time, in the order of
	 * ordered_pool_put(). */
	int (*write)(void *arg, struct ordered_pool_item *item,
		     struct error *err);
};

struct ordered_pool;

int ordered_pool_new(const struct ordered_pool_config *cfg,
		     struct ordered_pool **ret, struct error *err) MUST_CHECK;
void ordered_pool_free(struct ordered_pool *p); /* drops unfinished items */
DEFINE_AUTO(ordered_pool)

/* Hand over `len` bytes: takes `*buf` (of in_cap bytes) and puts another buffer in its
 * place. Waits while the pool is full. Returns the error of a thread that failed. */
int ordered_pool_put(struct ordered_pool *p, uint8_t **buf, uint32_t len,
		     uint32_t tag, struct error *err) MUST_CHECK;

/* Wait until everything was written. */
int ordered_pool_finish(struct ordered_pool *p, struct error *err) MUST_CHECK;

#endif
