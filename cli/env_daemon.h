// SPDX-License-Identifier: Apache-2.0
/* Daemons of an environment: started on each node once what they are of is in place. */
#ifndef BOOTSEER_CLI_ENV_DAEMON_H
#define BOOTSEER_CLI_ENV_DAEMON_H

#include <stdint.h>

#include "common/error.h"

/* As options say it; all is borrowed, lists end with NULL and may be NULL. */
struct env_daemons {
	char **commands; /* NAME=COMMAND */
	char **ready;    /* NAME=COMMAND: succeeds once the daemon is ready */
	char *dir;       /* of logs and locks; NULL: the usual place */
	int64_t timeout; /* ns, for each to be ready */
};

/* -EINVAL: a name is none, comes twice, or has no daemon. */
int env_daemons_check(const struct env_daemons *d,
		      struct error *err) MUST_CHECK;

/*
 * Start each, in their order, by the shell, in a session of its own, and wait until it is
 * ready.  One that runs already, from a start before, is left as it is.  Fails with the
 * first that cannot be started, ends or is not ready in time; the message names its log.
 */
int env_daemons_start(const struct env_daemons *d,
		      struct error *err) MUST_CHECK;

#endif
