// SPDX-License-Identifier: Apache-2.0
/*
 * Work that the service does by itself, each minute: it sums up starts that are over, and
 * forgets what is too old or too much. It has a thread of its own, since with few threads
 * it would hold up all requests.
 */
#ifndef BOOTSEER_REGISTRY_SWEEP_H
#define BOOTSEER_REGISTRY_SWEEP_H

#include <stdatomic.h>

#include "net/loop.h"
#include "net/pool.h"

struct service;

/* Zeros at first; the loop's, but for `has_more`, which is the work's while it runs. */
struct sweep {
	struct service *service;
	struct pool *pool; /* of one thread */
	struct loop_timer timer;
	struct work work;
	bool running, has_more;
	atomic_bool stopping; /* any thread reads it */
};

/* The first one is at once. */
int sweep_start(struct sweep *sweep, struct service *s,
		struct error *err) MUST_CHECK;
/* Earlier than in its minute: much came in. */
void sweep_soon(struct sweep *sweep);
/* Have the sweep that runs end after the step it is at, and begin none. */
void sweep_stop(struct sweep *sweep);
/* Wait for the sweep that was told to stop; before the loop is freed. */
void sweep_join(struct sweep *sweep);

#endif
