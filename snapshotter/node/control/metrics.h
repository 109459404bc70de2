// SPDX-License-Identifier: Apache-2.0
/* GET /metrics over HTTP, on the loop. */
#ifndef BOOTSEER_NODE_METRICS_H
#define BOOTSEER_NODE_METRICS_H

#include "common/buf.h"
#include "net/loop.h"

struct metrics;

/* Serve at "address:port" what `text` appends; it must not block for long.
 * Port 0 takes a free one.  On the loop's thread, as metrics_free(). */
int metrics_new(struct loop *l, const char *at,
		int (*text)(void *arg, struct buf *ret), void *arg,
		struct metrics **ret, struct error *err) MUST_CHECK;
/* The port it listens on. */
unsigned int metrics_port(const struct metrics *m);
void metrics_free(struct metrics *m); /* NULL is allowed */

#endif
