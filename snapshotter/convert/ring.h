// SPDX-License-Identifier: Apache-2.0
/* Pieces that threads work on side by side and that come out in order. */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_RING_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_RING_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define RING_JOBS_MAX 64

struct ring_item {
	uint8_t *in;
	uint32_t in_len;
	uint8_t *out;
	uint32_t out_len; /* set by work() */
	uint32_t tag;     /* the user's */
};

struct ring_config {
	unsigned int jobs; /* threads, 1..RING_JOBS_MAX */
	size_t in_cap, out_cap;
	void *arg;
	/* What a thread works with; NULL when memory is short. */
	void *(*worker_new)(void *arg);
	void (*worker_free)(void *worker);
	/* On any thread, several at once: `in` to `out`. */
	int (*work)(void *arg, void *worker, struct ring_item *item,
		    struct error *err);
	/* On any thread, one at a time, in the order of ring_put(). */
	int (*write)(void *arg, struct ring_item *item, struct error *err);
};

struct ring;

int ring_new(const struct ring_config *cfg, struct ring **ret,
	     struct error *err) MUST_CHECK;
void ring_free(struct ring *r); /* drops what is under way */
DEFINE_AUTO(ring)

/* Hand over `len` bytes: takes `*buf` (of in_cap bytes) and leaves another.
 * Waits while the ring is full.  Returns what a thread failed with. */
int ring_put(struct ring *r, uint8_t **buf, uint32_t len, uint32_t tag,
	     struct error *err) MUST_CHECK;

/* Wait until everything was written. */
int ring_finish(struct ring *r, struct error *err) MUST_CHECK;

#endif
