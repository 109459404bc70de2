// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the requests of one method from the bytes that a gRPC client sends to another program's
 * server, without I/O. The bytes are not changed, and answers are not read.
 */
#ifndef BOOTSEER_NET_GRPC_TAP_H
#define BOOTSEER_NET_GRPC_TAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct grpc_tap;

#define GRPC_TAP_STREAMS 32 /* open calls of the method that are followed */
#define GRPC_TAP_MESSAGE_MAX ((size_t)1 << 18) /* bytes of a request */

/* `path` is "/package.Service/Method", borrowed; `request` is called with each complete
 * message, borrowed during the call. */
int grpc_tap_new(const char *path,
		 void (*request)(void *arg, const void *message, size_t len),
		 void *arg, struct grpc_tap **ret,
		 struct error *err) MUST_CHECK;
void grpc_tap_free(struct grpc_tap *t);

/* Take the client's next bytes. A failure means that the connection cannot be followed: feed
 * it no more. */
int grpc_tap_feed(struct grpc_tap *t, const uint8_t *data, size_t len,
		  struct error *err) MUST_CHECK;

#endif
