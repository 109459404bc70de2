// SPDX-License-Identifier: Apache-2.0
/*
 * The one answer to accept(2) that has no descriptor or no memory: the connection stays in
 * the kernel's queue, so whoever looked at once again would spin for as long as it lasts.
 * Accepting pauses for SHORTAGE_PAUSE_NS, and the log says so once in a while.  A listener
 * (net/listener.h) does all of it by itself; this is for who has no loop.
 */
#ifndef BOOTSEER_NET_SHORTAGE_H
#define BOOTSEER_NET_SHORTAGE_H

#include <stdbool.h>
#include <stdint.h>

#define SHORTAGE_PAUSE_NS INT64_C(100000000)

/* State of a listening socket, zeroed at first. One thread at a time. */
struct accept_shortage {
	uint64_t total; /* how often there was one */
	int64_t told_ns;
};

/* Is that what this errno of accept4(2) means? */
bool shortage_is(int code);

/* There was one; logged at most once a minute.  `name` is the socket's, for the log. */
void shortage_note(struct accept_shortage *s, const char *name, int code);

#endif
