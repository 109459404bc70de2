// SPDX-License-Identifier: Apache-2.0
#ifndef BOOTSEER_GROUPIO_CLIENT_CLIENT_PRIV_H
#define BOOTSEER_GROUPIO_CLIENT_CLIENT_PRIV_H

#include "common/buf.h"
#include "common/error.h"
#include "common/json.h"
#include "groupio/client/bootseer.h"

#define CLIENT_API __attribute__((visibility("default")))

/* Give a caller the error of rc. */
int client_error(int rc, const struct error *from, struct bootseer_error *to);

/* Connect, and send a request, which this takes, with the descriptor, where there is one. */
int client_call(const char *address, json_t *request, int fd, int *ret_sock,
		struct error *err) MUST_CHECK;
/* Send all of it; a descriptor with its first byte. */
int client_send(int sock, const void *data, size_t len, int fd,
		struct error *err) MUST_CHECK;
/* The next line of JSON, until clock_now_ns() is `until_ns` (INT64_MAX: ever); `rest` has what
 * has come of it.  -ETIMEDOUT; -ECONNRESET: no more will come. */
int client_line(int sock, struct buf *rest, int64_t until_ns, json_t **ret,
		struct error *err) MUST_CHECK;
/* Memory of that size, to be filled; client_memory_seal() then. */
int client_memory_new(size_t size, int *ret_fd, char **ret_map,
		      struct error *err) MUST_CHECK;
int client_memory_seal(int fd, char *map, size_t size,
		       struct error *err) MUST_CHECK;

#endif
