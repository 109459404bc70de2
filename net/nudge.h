// SPDX-License-Identifier: Apache-2.0
/*
 * Interrupts blocking system calls of a thread. A peer on a Unix socket can send descriptors
 * with a byte (SCM_RIGHTS). When the receiver does not take them, or closes the connection, the
 * kernel closes them on the receiver's thread: for a TCP connection with SO_LINGER that can
 * block as long as the sender likes. A signal ends such a wait.
 */
#ifndef BOOTSEER_NET_NUDGE_H
#define BOOTSEER_NET_NUDGE_H

#include <stdint.h>

#include "common/error.h"

#define NUDGE_NS INT64_C(5000000) /* longest time that a call stays blocked */

struct nudge;

/* Make a nudge for the calling thread, which alone may use it. */
int nudge_new(struct nudge **ret, struct error *err) MUST_CHECK;
void nudge_free(struct nudge *n);

/* Send this thread a signal each NUDGE_NS until nudge_end(). NULL is allowed. */
void nudge_begin(struct nudge *n);
void nudge_end(struct nudge *n);

#endif
