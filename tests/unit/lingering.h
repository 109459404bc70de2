// SPDX-License-Identifier: Apache-2.0
/* A stranger who sends descriptors that take long to close. */
#ifndef BOOTSEER_TESTS_UNIT_LINGERING_H
#define BOOTSEER_TESTS_UNIT_LINGERING_H

/*
 * Send a byte on the Unix socket `sock`, and with it the only descriptor of a connection
 * whose close waits for an hour, or until its other end goes.  Returns that, or -errno:
 * -EPERM where the kernel lets nobody send descriptors.
 */
int lingering_send(int sock);

#endif
