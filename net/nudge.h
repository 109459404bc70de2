// SPDX-License-Identifier: Apache-2.0
/*
 * Ends what a thread waits for in the kernel.  Whoever can connect to a Unix socket
 * can send descriptors with a byte (SCM_RIGHTS).  Whoever receives that byte without
 * wanting them, or closes the connection, has the last of them closed by the kernel on
 * his own thread: of a TCP connection with SO_LINGER that takes as long as the sender
 * likes.  Such a wait ends at a signal.
 */
#ifndef BOOTSEER_NET_NUDGE_H
#define BOOTSEER_NET_NUDGE_H

#include <stdint.h>

#include "common/error.h"

#define NUDGE_NS INT64_C(5000000) /* a wait takes so long at most */

struct nudge;

/* For the thread that calls; all functions are for that one. */
int nudge_new(struct nudge **ret, struct error *err) MUST_CHECK;
void nudge_free(struct nudge *n);

/* Until nudge_end() this thread gets a signal each NUDGE_NS.  NULL: none. */
void nudge_begin(struct nudge *n);
void nudge_end(struct nudge *n);

#endif
