// SPDX-License-Identifier: Apache-2.0
/* The socket by which a container asks for mounts of environments: docs/formats/control.md. */
#ifndef BOOTSEER_CLI_ENV_POD_H
#define BOOTSEER_CLI_ENV_POD_H

#include <jansson.h>

#include "cli/env_mount.h"

#define ENV_POD_SOCKET "/run/bootseer-env/env.sock"
#define ENV_POD_LINE_MAX 65536

/* Make the parameters that describe a snapshot in the store `url` to bootseerd and `env socket`.
 * The caller owns them.  NULL: memory is short, or the URL is not UTF-8. */
json_t *env_snapshot_params(const char *url, const struct env_snapshot *snap);
/* Add a member to parameters and return them.  Takes both, of which either may be NULL. NULL:
 * memory is short. */
json_t *env_params_with(json_t *params, const char *key, json_t *value);

/* Read a line, without its end, of at most ENV_POD_LINE_MAX bytes, within `seconds`.  -ECONNRESET:
 * the peer closed the connection. */
int env_pod_read(int fd, unsigned int seconds, struct buf *ret,
		 struct error *err) MUST_CHECK;
int env_pod_write(int fd, const struct buf *line, struct error *err) MUST_CHECK;

/* Send a reply of success; `result` is borrowed, NULL: without a result. */
int env_pod_reply(int fd, json_t *result, struct error *err) MUST_CHECK;

/* The socket that this container was given; NULL: none. */
const char *env_pod_socket(void);
int env_pod_connect(const char *path, int *ret, struct error *err) MUST_CHECK;
/* Send a request and read the reply.  `ret` may be NULL if only success matters; else the caller
 * owns it. */
int env_pod_call(int fd, const char *method, json_t *params,
		 unsigned int seconds, json_t **ret,
		 struct error *err) MUST_CHECK;
/* env_mount() by the socket at `path`. */
int env_pod_mount(const char *path, const struct env_mount_job *job,
		  struct error *err) MUST_CHECK;

#endif
