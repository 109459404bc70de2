// SPDX-License-Identifier: Apache-2.0
/*
 * Events that wait for the service, on disk: files of lines in the order in which they
 * came.  Any thread.
 */
#ifndef BOOTSEER_PROFILER_FOLLOW_SPOOL_H
#define BOOTSEER_PROFILER_FOLLOW_SPOOL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"

#define SPOOL_BATCH_MAX (192u << 10) /* bytes of one file: of one request */

/* There are two: what waits in the second one goes when the first is empty, so that a pod
 * that says much keeps no other waiting. */
enum { SPOOL_FIRST, SPOOL_LATER, SPOOLS };

struct event_spool;

/* Open the spool in `dir`. Batches of a predecessor are kept; the last may end within a
 * line. */
int event_spool_open(const char *dir, uint64_t max, struct event_spool **ret,
		     struct error *err) MUST_CHECK;
void event_spool_close(struct event_spool *s); /* NULL is allowed */

/* Append whole lines, durably when it returns.  -ENOSPC: `max` is reached, or the
 * disk is full; nothing was kept. */
int event_spool_put(struct event_spool *s, const struct buf *lines,
		    struct error *err) MUST_CHECK;
/* Seal the open batch: it is for the sender from now on, however little it is. */
void event_spool_seal(struct event_spool *s);

/* The oldest batch that is sealed.  1: there is one; 0: there is none. */
int event_spool_first(struct event_spool *s, uint64_t *ret_batch,
		      struct buf *ret, struct error *err) MUST_CHECK;
void event_spool_drop(struct event_spool *s, uint64_t batch);

uint64_t event_spool_bytes(struct event_spool *s);

#endif
