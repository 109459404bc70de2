// SPDX-License-Identifier: Apache-2.0
/*
 * Requests of one method, read from the bytes that a gRPC client sends to a server of others,
 * without I/O.  The bytes are not changed; what the server answers is not looked at.
 */
#ifndef BOOTSEER_NET_GRPC_TAP_H
#define BOOTSEER_NET_GRPC_TAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct grpc_tap;

#define GRPC_TAP_STREAMS 32 /* calls of the method under way */
#define GRPC_TAP_MESSAGE_MAX ((size_t)1 << 18) /* bytes of a request */

/* `path` is "/package.Service/Method", borrowed; `request` gets each message when it is
 * whole, borrowed for the call. */
int grpc_tap_new(const char *path,
		 void (*request)(void *arg, const void *message, size_t len),
		 void *arg, struct grpc_tap **ret,
		 struct error *err) MUST_CHECK;
void grpc_tap_free(struct grpc_tap *t);

/* The next bytes.  A failure: they are no HTTP/2 that can be followed, so nothing more is read
 * of this connection. */
int grpc_tap_feed(struct grpc_tap *t, const uint8_t *data, size_t len,
		  struct error *err) MUST_CHECK;

#endif
