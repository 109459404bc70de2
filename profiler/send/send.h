// SPDX-License-Identifier: Apache-2.0
/* Events to bootseer-registry, and what its clock says of this machine's. */
#ifndef BOOTSEER_PROFILER_SEND_H
#define BOOTSEER_PROFILER_SEND_H

#include "common/buf.h"
#include "net/service_client.h"

struct stage_sent {
	uint64_t stored, doubles;
};

/*
 * Find what to add to the clocks here to have the service's, by some exchanges, written
 * as the service takes it, into `ret`.
 */
int stage_clock_exchange(struct service_client *c, const char *node,
			 struct buf *ret, struct error *err) MUST_CHECK;

/* Send lines of one node; `clock` is of an exchange, or NULL when they are another
 * machine's.  Errors are those of service_client_do(). */
int stage_send(struct service_client *c, const char *node, const char *clock,
	       const struct buf *lines, struct stage_sent *ret,
	       struct error *err) MUST_CHECK;

/* May the same lines be taken later? */
bool stage_send_is_passing(int rc);

#endif
