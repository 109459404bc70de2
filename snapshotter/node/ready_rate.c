// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/ready_rate.h"

#include <string.h>

#define NS_PER_S INT64_C(1000000000)

/* FNV-1a; the seed moves groups that share a place away from each other. */
static uint64_t hash(uint64_t seed, const char *text)
{
	uint64_t h = UINT64_C(14695981039346656037) ^ seed;

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * UINT64_C(1099511628211);
	return h ^ h >> 32;
}

bool ready_rate_take(struct ready_rate *r, const char *cgroups, int64_t now_ns)
{
	uint8_t *peer;

	if (r->second != now_ns / NS_PER_S) {
		r->second = now_ns / NS_PER_S;
		r->seed = r->seed * UINT64_C(6364136223846793005) + 1;
		r->all = 0;
		memset(r->peer, 0, sizeof(r->peer));
	}
	peer = &r->peer[hash(r->seed, cgroups) % READY_RATE_SLOTS];
	/* Of a container that says too much nothing is taken from the rest. */
	if (*peer >= READY_RATE_PEER || r->all >= READY_RATE_ALL)
		return false;
	++*peer;
	r->all++;
	return true;
}
