// SPDX-License-Identifier: Apache-2.0
/*
 * How often processes are heard on ready.sock: so that one container neither
 * makes work without end, nor keeps others from being heard.  One thread.
 */
#ifndef BOOTSEER_NODE_READY_RATE_H
#define BOOTSEER_NODE_READY_RATE_H

#include <stdbool.h>
#include <stdint.h>

#define READY_RATE_PEER 8   /* lines a second of one control group */
#define READY_RATE_ALL 256  /* and of all together */
#define READY_RATE_SLOTS 64 /* groups that are told apart in a second */

struct ready_rate {
	int64_t second;
	uint32_t all;
	/* By a hash of the group's name: two that share a place share a limit,
	 * for a second. */
	uint8_t peer[READY_RATE_SLOTS];
	uint64_t seed; /* another each second */
};

/* May the group `cgroups` be heard at `now_ns` (monotonic)? */
bool ready_rate_take(struct ready_rate *r, const char *cgroups, int64_t now_ns);

#endif
