// SPDX-License-Identifier: Apache-2.0
/*
 * Work that the service does by itself, each minute on a thread of its pool: it sums up
 * starts that are over, and forgets what is too old or too much.
 */
#ifndef BOOTSEER_REGISTRY_SWEEP_H
#define BOOTSEER_REGISTRY_SWEEP_H

#include "net/loop.h"
#include "net/pool.h"

struct service;

/* Zeros at first; the loop's, but for `has_more`, which is the work's while it runs. */
struct sweep {
	struct service *service;
	struct loop_timer timer;
	struct work work;
	bool running, has_more, stopping;
};

/* The first one is at once. */
int sweep_start(struct sweep *sweep, struct service *s,
		struct error *err) MUST_CHECK;
/* Earlier than in its minute: much came in. */
void sweep_soon(struct sweep *sweep);
/* No further one; that which runs goes on. */
void sweep_stop(struct sweep *sweep);

#endif
