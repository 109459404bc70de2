// SPDX-License-Identifier: Apache-2.0
/* The node's part in swarms, for the files of this room. */
#ifndef BOOTSEER_NODE_IMAGE_SWARM_PRIV_H
#define BOOTSEER_NODE_IMAGE_SWARM_PRIV_H

#include <pthread.h>

#include "snapshotter/node/peers/image_swarm.h"

#define NAME_MAX_BYTES 256

struct image_swarms {
	struct image_swarms_of of;
	struct p2p *p2p;
	char name[NAME_MAX_BYTES];
	pthread_mutex_t opening; /* one image joins at a time */
	pthread_mutex_t telling; /* one start takes an image's flow at a time */
	atomic_uint_fast64_t metadata_bytes; /* pinned to be served */
};

#endif
