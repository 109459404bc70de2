// SPDX-License-Identifier: Apache-2.0
/* GET /metrics over HTTP, on the loop; the figures on a thread. */
#ifndef BOOTSEER_NET_METRICS_SERVER_H
#define BOOTSEER_NET_METRICS_SERVER_H

#include "common/buf.h"
#include "net/loop.h"

struct metrics;

/* Serve at "address:port" what `text` appends, which is called on a thread and may
 * take its time: figures of large mounts do.  Port 0 takes a free one.  On the loop's
 * thread, as all here. */
int metrics_new(struct loop *l, const char *at,
		int (*text)(void *arg, struct buf *ret), void *arg,
		struct metrics **ret, struct error *err) MUST_CHECK;
/* The port it listens on. */
unsigned int metrics_port(const struct metrics *m);
/* Close its connections, and wait for the thread. */
void metrics_stop(struct metrics *m); /* NULL is allowed */
/* After metrics_stop(), and when the loop has run what that left: after its end. */
void metrics_free(struct metrics *m); /* NULL is allowed */

#endif
