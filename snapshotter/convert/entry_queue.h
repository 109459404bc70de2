// SPDX-License-Identifier: Apache-2.0
/*
 * Entries of layers that threads read side by side, for one thread that takes them in
 * the order of the layers.  Memory is bounded: a layer that is read before its turn
 * waits when the entries of all have ENTRY_QUEUE_BYTES, and none is begun more than
 * ENTRY_QUEUE_AHEAD layers before its turn.
 */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_ENTRY_QUEUE_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_ENTRY_QUEUE_H

#include "common/bytes.h"
#include "snapshotter/convert/apply.h"

/* Beside these each reader fills a batch: 64 KiB, or one entry of up to 17 MiB, which
 * the shared xattrs of an EROFS image can have. */
#define ENTRY_QUEUE_BYTES (32 * MIB)
#define ENTRY_QUEUE_AHEAD 16

struct entry_queue;

struct entry_queue *entry_queue_new(size_t n_layers) MUST_CHECK;
void entry_queue_free(struct entry_queue *q); /* nobody waits in it */
DEFINE_AUTO(entry_queue)

/* --------------------------------------------------------------- readers --- */

/* The next layer that nobody reads.  Waits while it is too far ahead; false: there is
 * none, or the queue was stopped. */
bool entry_queue_begin(struct entry_queue *q, size_t *ret_layer);
/* Keep a copy of an entry of that layer; by its reader only.
 *   -ECANCELED  the queue was stopped */
int entry_queue_put(struct entry_queue *q, size_t layer,
		    const struct layer_entry *e, struct error *err) MUST_CHECK;
/* Wait until all layers before it were taken.  False: the queue was stopped. */
bool entry_queue_await_turn(struct entry_queue *q, size_t layer);
/* The layer has no more: what its reader wrote before is seen by who takes this. */
void entry_queue_end(struct entry_queue *q, size_t layer);
/* Have entry_queue_take() return, if it waits. */
void entry_queue_wake(struct entry_queue *q);

/* ----------------------------------------------------------- the one taker --- */

enum entry_taken {
	ENTRY_TAKEN,   /* `*ret` has it, until the next call */
	ENTRY_WAKE,    /* entry_queue_wake() was called */
	ENTRY_END,     /* of the layer: the next one has its turn */
	ENTRY_STOPPED, /* and the layer has not ended */
};

enum entry_taken entry_queue_take(struct entry_queue *q,
				  const struct layer_entry **ret);
/* Let all who wait go; any thread. */
void entry_queue_stop(struct entry_queue *q);
uint64_t entry_queue_peak(struct entry_queue *q); /* bytes that it ever had */

#endif
