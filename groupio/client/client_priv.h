// SPDX-License-Identifier: Apache-2.0
#ifndef BOOTSEER_GROUPIO_CLIENT_CLIENT_PRIV_H
#define BOOTSEER_GROUPIO_CLIENT_CLIENT_PRIV_H

#include "common/buf.h"
#include "common/error.h"
#include "common/json.h"
#include "groupio/client/bootseer.h"

#define CLIENT_API __attribute__((visibility("default")))

/* Return `rc`, and copy its error to the caller's `to`. */
int client_error(int rc, const struct error *from, struct bootseer_error *to);

/* Connect and send a request with a descriptor (`fd` -1: none); takes over the request. */
int client_call(const char *address, json_t *request, int fd, int *ret_sock,
		struct error *err) MUST_CHECK;
/* Send all bytes; a descriptor goes with the first one. */
int client_send(int sock, const void *data, size_t len, int fd,
		struct error *err) MUST_CHECK;
/* Receive a line of JSON, until clock_now_ns() is `until_ns` (INT64_MAX: no limit); `rest`
 * keeps bytes received so far. -ETIMEDOUT; -ECONNRESET: the connection has ended. */
int client_line(int sock, struct buf *rest, int64_t until_ns, json_t **ret,
		struct error *err) MUST_CHECK;
/* Make memory of that size for the caller to fill; then call client_memory_seal(). */
int client_memory_new(size_t size, int *ret_fd, char **ret_map,
		      struct error *err) MUST_CHECK;
int client_memory_seal(int fd, char *map, size_t size,
		       struct error *err) MUST_CHECK;

#endif
