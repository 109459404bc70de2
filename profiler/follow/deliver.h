// SPDX-License-Identifier: Apache-2.0
/* The thread that sends events from the spool to the service. */
#ifndef BOOTSEER_PROFILER_FOLLOW_DELIVER_H
#define BOOTSEER_PROFILER_FOLLOW_DELIVER_H

#include "net/service_client.h"
#include "profiler/follow/spool.h"

struct deliverer;

struct deliver_stats {
	uint64_t stored, doubles, refused, damaged; /* events */
	uint64_t failures;                          /* requests */
};

/* Start the thread. All arguments are borrowed until deliverer_stop(). */
int deliverer_start(struct event_spool *const spools[SPOOLS],
		    struct service_client *client, const char *node,
		    struct deliverer **ret, struct error *err) MUST_CHECK;
/* Stop the thread, after the running request. NULL is allowed. */
void deliverer_stop(struct deliverer *d);

/* Wake the thread: a batch was sealed. */
void deliverer_wake(struct deliverer *d);
void deliverer_get_stats(struct deliverer *d, struct deliver_stats *ret);

#endif
