// SPDX-License-Identifier: Apache-2.0
/* Daemons of an environment: started on each node once what they are of is in place. */
#ifndef BOOTSEER_CLI_ENV_DAEMON_H
#define BOOTSEER_CLI_ENV_DAEMON_H

#include <stdint.h>

#include "envcache/catalog.h"

/* As options say it; all is borrowed, lists end with NULL and may be NULL. */
struct env_daemons {
	char **commands; /* NAME=COMMAND */
	char **ready;    /* NAME=COMMAND: succeeds once the daemon is ready */
	char *dir;       /* of logs and locks; NULL: the usual place */
	int64_t timeout; /* ns, for each to be ready */
	/* Names of those that are dumped, and restored where there is a dump. */
	char **dumped;
	int64_t dump_timeout; /* ns, for a dump and for a restore */
	bool quiet;           /* say nothing of dumps when all goes well */
};

/* The place of daemons; all is borrowed. */
struct env_daemons_at {
	struct env_catalog *catalog; /* NULL where there is none */
	/* The snapshot in the targets, or NULL: they have none's content. */
	const struct env_snapshot *snap;
};

/* -EINVAL: a name is none, comes twice, or has no daemon; what is dumped has to say when it
 * is ready. */
int env_daemons_check(const struct env_daemons *d,
		      struct error *err) MUST_CHECK;

/*
 * Start each, in their order, by the shell, in a session of its own, and wait until it is
 * ready.  One that runs already, from a start before, is left as it is.  Those to be
 * dumped are restored, or dumped once they are ready; a line says why not.  Fails with the
 * first that cannot be started, ends or is not ready in time; the message names its log.
 */
int env_daemons_start(const struct env_daemons *d,
		      const struct env_daemons_at *at,
		      struct error *err) MUST_CHECK;

#endif
