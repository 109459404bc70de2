// SPDX-License-Identifier: Apache-2.0
/* Private members of the node's swarms, for the files in this folder. */
#ifndef BOOTSEER_NODE_IMAGE_SWARM_PRIV_H
#define BOOTSEER_NODE_IMAGE_SWARM_PRIV_H

#include <pthread.h>

#include "snapshotter/node/peers/image_swarm.h"

#define NAME_MAX_BYTES 256

struct image_swarms {
	struct image_swarms_of of;
	struct p2p *p2p;
	char name[NAME_MAX_BYTES];
	pthread_mutex_t opening; /* held while one image joins */
	/* held while one start reads an image's flow */
	pthread_mutex_t telling;
	/* bytes pinned in the cache to be served */
	atomic_uint_fast64_t metadata_bytes;
};

#endif
