// SPDX-License-Identifier: Apache-2.0
/*
 * Periodic work of the service, each minute: it sums up finished starts, and deletes data that is
 * too old or too much. It has a thread of its own, because with few threads it would hold up all
 * requests.
 */
#ifndef BOOTSEER_REGISTRY_SWEEP_H
#define BOOTSEER_REGISTRY_SWEEP_H

#include <stdatomic.h>

#include "net/loop.h"
#include "net/pool.h"

struct service;

/* Initialise with zeros. Used on the loop thread, except `has_more`, which belongs to the running
 * sweep. */
struct sweep {
	struct service *service;
	struct pool *pool; /* pool with a single thread */
	struct loop_timer timer;
	struct work work;
	bool running, has_more;
	atomic_bool stopping; /* may be read by any thread */
};

/* Start the sweeps; the first runs at once. */
int sweep_start(struct sweep *sweep, struct service *s,
		struct error *err) MUST_CHECK;
/* Run the next sweep at once, because much data came in. */
void sweep_soon(struct sweep *sweep);
/* Let the running sweep end after its current step, and start no other. */
void sweep_stop(struct sweep *sweep);
/* Wait for the stopped sweep to end; call before the loop is freed. */
void sweep_join(struct sweep *sweep);

#endif
