// SPDX-License-Identifier: Apache-2.0
/*
 * How long calls wait for a bootseerd that does not listen. The time counts for all calls
 * together, from the first that missed it: so nobody notices a restart, and after bootseerd has
 * ended for good, not every layer and start waits. The log says once that calls wait, and once
 * that bootseerd is back.
 */
#ifndef BOOTSEER_CONTAINERD_PLUGIN_ABSENCE_H
#define BOOTSEER_CONTAINERD_PLUGIN_ABSENCE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "snapshotter/client.h"

struct absence {
	struct control_patience patience; /* for node_client_open() */
	int64_t timeout_ns;
	pthread_mutex_t lock; /* protects the rest */
	int64_t since_ns;     /* when it was first missed; 0: it is present */
	int64_t last_ns;      /* when it was last missed */
};

void absence_init(struct absence *a, int64_t timeout_ns);
void absence_fini(struct absence *a);

#endif
