// SPDX-License-Identifier: Apache-2.0
/* The node's part in swarms, for image_swarms.c and image_swarm.c. */
#ifndef BOOTSEER_NODE_IMAGE_SWARM_PRIV_H
#define BOOTSEER_NODE_IMAGE_SWARM_PRIV_H

#include <pthread.h>

#include "snapshotter/node/peers/image_swarm.h"

#define NAME_MAX_BYTES 256

struct image_swarms {
	struct p2p *p2p;
	char name[NAME_MAX_BYTES];
	pthread_mutex_t opening; /* one image joins at a time */
	pthread_mutex_t telling; /* one start takes an image's flow at a time */
};

/* After every swarm was left. */
void image_swarms_free(struct image_swarms *p);

#endif
