// SPDX-License-Identifier: Apache-2.0
/*
 * Queue on disk of events for the service: files of lines, in the order in which they came. Any
 * thread.
 */
#ifndef BOOTSEER_PROFILER_FOLLOW_SPOOL_H
#define BOOTSEER_PROFILER_FOLLOW_SPOOL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"

/* bytes of one file, which is sent as one request */
#define SPOOL_BATCH_MAX (192u << 10)

/* There are two spools. The second is sent only while the first is empty, so that a pod with many
 * events does not delay the others. */
enum { SPOOL_FIRST, SPOOL_LATER, SPOOLS };

struct event_spool;

/* Open the spool in `dir`. Batches left by an earlier process are kept; the last may end within a
 * line. */
int event_spool_open(const char *dir, uint64_t max, struct event_spool **ret,
		     struct error *err) MUST_CHECK;
void event_spool_close(struct event_spool *s); /* NULL is allowed */

/* Append whole lines; they are synced to disk on return. -ENOSPC: `max` is reached or the disk is
 * full; nothing was appended. */
int event_spool_put(struct event_spool *s, const struct buf *lines,
		    struct error *err) MUST_CHECK;
/* Seal the open batch, however small, so that it is sent. */
void event_spool_seal(struct event_spool *s);

/* Read the oldest sealed batch. 1: there is one; 0: none. */
int event_spool_first(struct event_spool *s, uint64_t *ret_batch,
		      struct buf *ret, struct error *err) MUST_CHECK;
void event_spool_drop(struct event_spool *s, uint64_t batch);

uint64_t event_spool_bytes(struct event_spool *s);

#endif
