// SPDX-License-Identifier: Apache-2.0
/* Sends events to bootseer-registry, and measures the offset of this machine's clocks from the
 * service's. */
#ifndef BOOTSEER_PROFILER_SEND_H
#define BOOTSEER_PROFILER_SEND_H

#include "common/buf.h"
#include "net/service_client.h"

struct stage_sent {
	uint64_t stored, doubles;
};

/*
 * Measure, by some exchanges, the offset to add to this machine's clocks to get the service's time.
 * `ret` gets it in the format that the service accepts.
 */
int stage_clock_exchange(struct service_client *c, const char *node,
			 struct buf *ret, struct error *err) MUST_CHECK;

/* Send lines of one node. `clock`: result of stage_clock_exchange(), or NULL for another machine's
 * lines. Errors are those of service_client_do(). */
int stage_send(struct service_client *c, const char *node, const char *clock,
	       const struct buf *lines, struct stage_sent *ret,
	       struct error *err) MUST_CHECK;

/* Is the error temporary, so that a later attempt with the same lines may succeed? */
bool stage_send_is_passing(int rc);

#endif
