// SPDX-License-Identifier: Apache-2.0
/*
 * Entries of layers that threads read side by side, for one thread that takes them in the order
 * of the layers.  Memory is limited: the reader of a layer that is not in turn waits when all
 * queued entries together have ENTRY_QUEUE_BYTES, and no layer is begun more than
 * ENTRY_QUEUE_AHEAD layers before its turn.
 */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_ENTRY_QUEUE_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_ENTRY_QUEUE_H

#include "common/bytes.h"
#include "snapshotter/convert/apply.h"

/* Limit of queued entries.  In addition each reader fills a batch: 64 KiB, or one entry of up
 * to 17 MiB, which the shared xattrs of an EROFS image can have. */
#define ENTRY_QUEUE_BYTES (32 * MIB)
#define ENTRY_QUEUE_AHEAD 16

struct entry_queue;

struct entry_queue *entry_queue_new(size_t n_layers) MUST_CHECK;
/* no thread may be waiting in it */
void entry_queue_free(struct entry_queue *q);
DEFINE_AUTO(entry_queue)

/* --------------------------------------------------------------- readers --- */

/* Get the next layer that no thread reads.  Waits while it is too far ahead; false: there is
 * none, or the queue was stopped. */
bool entry_queue_begin(struct entry_queue *q, size_t *ret_layer);
/* Put a copy of an entry of that layer; called by its reader only.
 *     -ECANCELED  the queue was stopped */
int entry_queue_put(struct entry_queue *q, size_t layer,
		    const struct layer_entry *e, struct error *err) MUST_CHECK;
/* Wait until all earlier layers were taken.  False: the queue was stopped. */
bool entry_queue_await_turn(struct entry_queue *q, size_t layer);
/* End the layer: the taking thread then sees everything that the reader wrote before. */
void entry_queue_end(struct entry_queue *q, size_t layer);
/* Wake entry_queue_take(), if it waits. */
void entry_queue_wake(struct entry_queue *q);

/* -------------------------------------------- --- the single taking thread --- */

enum entry_taken {
	ENTRY_TAKEN,   /* `*ret` has it, until the next call */
	ENTRY_WAKE,    /* entry_queue_wake() was called */
	ENTRY_END,     /* the layer has ended; the next one is in turn */
	ENTRY_STOPPED, /* stopped, before the layer has ended */
};

enum entry_taken entry_queue_take(struct entry_queue *q,
				  const struct layer_entry **ret);
/* Stop the queue: no thread waits any more; any thread may call it. */
void entry_queue_stop(struct entry_queue *q);
/* largest number of queued bytes */
uint64_t entry_queue_peak(struct entry_queue *q);

#endif
