// SPDX-License-Identifier: Apache-2.0
/* The socket by which a container has environments mounted: docs/formats/control.md. */
#ifndef BOOTSEER_CLI_ENV_POD_H
#define BOOTSEER_CLI_ENV_POD_H

#include <jansson.h>

#include "cli/env_mount.h"

#define ENV_POD_SOCKET "/run/bootseer-env/env.sock"
#define ENV_POD_LINE_MAX 65536

/* The parameters by which bootseerd and `env socket` are told of a snapshot of the store `url`;
 * the caller's.  NULL: memory is short, or the URL is not UTF-8. */
json_t *env_snapshot_params(const char *url, const struct env_snapshot *snap);
/* Add a member to parameters.  Takes both, of which either may be NULL; NULL: as above. */
json_t *env_params_with(json_t *params, const char *key, json_t *value);

/* A line without its end, within ENV_POD_LINE_MAX and `seconds`, however its bytes come.
 * -ECONNRESET: the other end left. */
int env_pod_read(int fd, unsigned int seconds, struct buf *ret,
		 struct error *err) MUST_CHECK;
int env_pod_write(int fd, const struct buf *line, struct error *err) MUST_CHECK;

/* The answer that it went well; `result` is borrowed, NULL: there is nothing to say. */
int env_pod_reply(int fd, json_t *result, struct error *err) MUST_CHECK;

/* The socket that this container was given; NULL: none. */
const char *env_pod_socket(void);
int env_pod_connect(const char *path, int *ret, struct error *err) MUST_CHECK;
/* `ret` may be NULL: a failure is what counts; else it is the caller's. */
int env_pod_call(int fd, const char *method, json_t *params,
		 unsigned int seconds, json_t **ret,
		 struct error *err) MUST_CHECK;
/* As env_mount(), by the socket at `path`. */
int env_pod_mount(const char *path, const struct env_mount_job *job,
		  struct error *err) MUST_CHECK;

#endif
