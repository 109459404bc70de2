// SPDX-License-Identifier: Apache-2.0
/*
 * Helper processes that `bootseer env run` leaves for a daemon in a PID namespace: the namespace's
 * first process, and the holder of the daemon's lock.  Both execute this program anew, so that
 * none of `env run`'s memory is in them.
 */
#ifndef BOOTSEER_CLI_ENV_DAEMON_INIT_H
#define BOOTSEER_CLI_ENV_DAEMON_INIT_H

/* First arguments: "bootseer --daemon-init COMMAND", "bootseer --daemon-watch FD PIDFILE". */
#define DAEMON_INIT "--daemon-init"
#define DAEMON_WATCH "--daemon-watch"

/*
 * Run `command` by the shell in its own session, pass signals on to it, and reap its orphans.
 * Ends when the command fails, which ends all processes of the namespace; else when none is left.
 */
int daemon_init_main(const char *command);

/* Wait for the process of the pidfd to end, then remove the file with its number.  Inherited
 * descriptors (the daemon's lock) stay open until then. */
int daemon_watch_main(const char *pidfd, const char *pidfile);

#endif
