// SPDX-License-Identifier: Apache-2.0
/*
 * Decides which connection keeps its place when all connections of a socket
 * that is open to everybody are taken, so that a container that floods the
 * socket does not keep others from being heard. Pure.
 */
#ifndef BOOTSEER_NET_PLACES_H
#define BOOTSEER_NET_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct place {
	uint64_t group; /* places_group() of the peer */
	bool is_silent; /* no whole line has come: it can be given up */
};

/* The control group of a process, by /proc/PID/cgroup.  What a container makes
 * below its own group, named by its id, counts as that one. */
uint64_t places_group(const char *cgroups);

/* Which of `n` places, the newest first, is given up for a newcomer: of the group
 * that has the most, the oldest silent one.  `n` when none is silent. */
size_t places_choose(const struct place *v, size_t n);

#endif
