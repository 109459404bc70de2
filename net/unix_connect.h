// SPDX-License-Identifier: Apache-2.0
/* Connects to Unix sockets. */
#ifndef BOOTSEER_NET_UNIX_CONNECT_H
#define BOOTSEER_NET_UNIX_CONNECT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cleanup.h"

/* Connect a stream to the socket `path`, close-on-exec; returns it, or -errno. While the
 * socket's queue is full, waits for up to `patience_ms`, which then also limits each send() and
 * recv(): -EAGAIN. With 0 neither this nor calls on the descriptor wait. */
int unix_connect(const char *path, uint32_t patience_ms) MUST_CHECK;

/* Does a process listen there? Also true when its queue is full. */
bool unix_is_served(const char *path);

#endif
