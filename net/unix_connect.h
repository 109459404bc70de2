// SPDX-License-Identifier: Apache-2.0
/* Connections to Unix sockets. */
#ifndef BOOTSEER_NET_UNIX_CONNECT_H
#define BOOTSEER_NET_UNIX_CONNECT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cleanup.h"

/* A stream to the socket `path`, closed on exec; -errno.  Waits while its queue is full, for
 * `patience_ms` at most, which then bounds each send() and recv(), too: -EAGAIN.  With 0 it does
 * not wait, and neither do calls on the descriptor. */
int unix_connect(const char *path, uint32_t patience_ms) MUST_CHECK;

/* Does a process accept there now?  So does one whose queue is full. */
bool unix_is_served(const char *path);

#endif
