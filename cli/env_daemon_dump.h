// SPDX-License-Identifier: Apache-2.0
/* Process snapshots: a daemon that is restored from a dump instead of being started. */
#ifndef BOOTSEER_CLI_ENV_DAEMON_DUMP_H
#define BOOTSEER_CLI_ENV_DAEMON_DUMP_H

#include "cli/env_daemon.h"
#include "cli/env_daemon_start.h"

/*
 * Restore the daemon from the dump that is of it here; where there is none, start it so
 * that it can be dumped, and dump it, one node for all.  0: it runs and is ready, dumped or
 * not.  Otherwise `err` says why it has to be started the ordinary way, after
 * daemon_kill().
 */
int daemon_start_dumped(struct daemon_start *s, const struct env_daemons *d,
			const struct env_daemons_at *at,
			struct error *err) MUST_CHECK;

#endif
