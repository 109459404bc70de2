// SPDX-License-Identifier: Apache-2.0
/* Process snapshots: daemons restored from a dump instead of being started. */
#ifndef BOOTSEER_CLI_ENV_DAEMON_DUMP_H
#define BOOTSEER_CLI_ENV_DAEMON_DUMP_H

#include "cli/env_daemon.h"
#include "cli/env_daemon_start.h"

/*
 * Restore the daemon from its dump; if there is none, start it in a form that can be dumped, and
 * dump it (one node for all).  Returns 0 when it runs and is ready, whether or not it was dumped.
 * Otherwise `err` says why it has to be started without dumps, after daemon_kill().
 */
int daemon_start_dumped(struct daemon_start *s, const struct env_daemons *d,
			const struct env_daemons_at *at,
			struct error *err) MUST_CHECK;

#endif
