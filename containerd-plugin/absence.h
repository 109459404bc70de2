// SPDX-License-Identifier: Apache-2.0
/*
 * How long a bootseerd that does not listen is waited for: all calls together for a
 * time from when it was first missed, so that a restart is noticed by nobody and
 * one that ended for good does not hold up each layer and start.  The log says once
 * that it is waited for, and once that it is there again.
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
	int64_t since_ns;     /* when it was first missed; 0: it is there */
	int64_t last_ns;      /* ... and last */
};

void absence_init(struct absence *a, int64_t timeout_ns);
void absence_fini(struct absence *a);

#endif
