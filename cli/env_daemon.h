// SPDX-License-Identifier: Apache-2.0
/* Daemons of an environment: started on each node once the environment is in place. */
#ifndef BOOTSEER_CLI_ENV_DAEMON_H
#define BOOTSEER_CLI_ENV_DAEMON_H

#include <stdint.h>

#include "envcache/catalog.h"

/* Options of daemons.  All is borrowed; lists end with NULL and may be NULL. */
struct env_daemons {
	char **commands; /* NAME=COMMAND */
	char **ready;    /* NAME=COMMAND: succeeds once the daemon is ready */
	char *dir;       /* folder of logs and locks; NULL: the usual one */
	int64_t timeout; /* nanoseconds for each daemon to get ready */
	/* Names of daemons to dump, or to restore where a dump exists. */
	char **dumped;
	int64_t dump_timeout; /* nanoseconds for a dump, and for a restore */
	bool quiet;           /* print nothing about dumps that succeed */
};

/* The environment that daemons are started in; all is borrowed. */
struct env_daemons_at {
	struct env_catalog *catalog; /* NULL: no catalog */
	/* The snapshot restored in the targets; NULL: the targets were not restored. */
	const struct env_snapshot *snap;
};

/* -EINVAL: a name is malformed, occurs twice, or belongs to no daemon; or a daemon to be dumped
 * has no ready command. */
int env_daemons_check(const struct env_daemons *d,
		      struct error *err) MUST_CHECK;

/*
 * Start the daemons in order, each by the shell in its own session, and wait until each is ready.
 * A daemon that still runs from an earlier start is left running.  Daemons to be dumped are
 * restored, or dumped once ready; if that fails, a line says why.  Returns the error of the first
 * daemon that cannot be started, ends or is not ready in time; the message names its log.
 */
int env_daemons_start(const struct env_daemons *d,
		      const struct env_daemons_at *at,
		      struct error *err) MUST_CHECK;

#endif
