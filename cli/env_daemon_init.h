// SPDX-License-Identifier: Apache-2.0
/*
 * Processes that `bootseer env run` leaves of a daemon that is in a PID namespace: the
 * first process of the namespace, and the one that holds the daemon's lock. Both are this
 * program, run anew, so that nothing of what `env run` knew is in their memory.
 */
#ifndef BOOTSEER_CLI_ENV_DAEMON_INIT_H
#define BOOTSEER_CLI_ENV_DAEMON_INIT_H

/* First words; "bootseer --daemon-init COMMAND", "bootseer --daemon-watch FD PIDFILE". */
#define DAEMON_INIT "--daemon-init"
#define DAEMON_WATCH "--daemon-watch"

/*
 * Run `command` by the shell in a session of its own, pass on to it the signals that end
 * or wake daemons, and take in what its processes leave.  Ends with it when it fails, and
 * all in the namespace with it; else when none is left.
 */
int daemon_init_main(const char *command);

/* Wait for the end of the process that the pidfd is of, and remove the file with its
 * number.  What else is open, the lock, is held until then. */
int daemon_watch_main(const char *pidfd, const char *pidfile);

#endif
