// SPDX-License-Identifier: Apache-2.0
/*
 * Chooses which connection is closed when all places of a socket open to everybody are taken, so
 * that a container that floods the socket does not keep others out. Pure.
 */
#ifndef BOOTSEER_NET_PLACES_H
#define BOOTSEER_NET_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct place {
	uint64_t group; /* places_group() of the peer */
	bool is_silent; /* no complete line has come: it may be closed */
};

/* The control group of a process, from /proc/PID/cgroup, as a hash. Groups that a container
 * makes below its own group, which is named by its id, count as that group. */
uint64_t places_group(const char *cgroups);

/* Index of the place, of `n` with the newest first, to give to a newcomer: the oldest silent
 * one of the group that has the most; `n` when none is silent. */
size_t places_choose(const struct place *v, size_t n);

#endif
