// SPDX-License-Identifier: Apache-2.0
/*
 * Handling of accept(2) that fails for lack of descriptors or memory. The connection stays in
 * the kernel's queue, so trying again at once would spin. Accepting pauses for
 * SHORTAGE_PAUSE_NS, and the log says so from time to time. Listeners (net/listener.h) do all of
 * this; these functions are for code without a loop.
 */
#ifndef BOOTSEER_NET_SHORTAGE_H
#define BOOTSEER_NET_SHORTAGE_H

#include <stdbool.h>
#include <stdint.h>

#define SHORTAGE_PAUSE_NS INT64_C(100000000)

/* State of a listening socket, zeroed at first. One thread at a time. */
struct accept_shortage {
	uint64_t total; /* number of shortages so far */
	int64_t told_ns;
};

/* Does this errno of accept4(2) mean such a shortage? */
bool shortage_is(int code);

/* Note a shortage; logged at most once a minute. `name` is the socket's, for the log. */
void shortage_note(struct accept_shortage *s, const char *name, int code);

#endif
