// SPDX-License-Identifier: Apache-2.0
/* Run a command as if it had replaced its caller. */
#ifndef BOOTSEER_CLI_ENV_CHILD_H
#define BOOTSEER_CLI_ENV_CHILD_H

#include <signal.h>
#include <stdbool.h>

#include "common/error.h"

/* Ignore SIGPIPE and do not ignore SIGCHLD from now on.  Call it first in main(). */
void env_signals_take(void);
/* Was the signal ignored when this process began, as a hangup under nohup(1)? */
bool env_signal_is_ignored(int sig);

/* The set of signals that are blocked here and passed on to the command: all but those caused by
 * this process itself (faults). */
void env_child_signals(sigset_t *ret);

/* Execute the command in this process.  Returns only on failure, with the exit status for it and
 * the message in `err`. */
int env_become(char *const *argv, struct error *err);

/*
 * Run the command with our input and output, in our process group.  Signals sent to us are passed
 * on to it; it is stopped, continued and killed with us.  Returns when it has ended, with
 * wait(2)'s status in `*ret`.  `*ret_told` (may be NULL) is the signal that told it to end
 * meanwhile (SIGHUP, SIGINT, SIGQUIT, SIGTERM), after which its work may be incomplete; 0: none.
 * `lock`: see env_lock_take().
 *
 * `mask` is NULL, or the signal mask for the command, from a caller that blocks signals and has
 * other children.  Then only the command is reaped, as the caller still signals its children by
 * number.
 */
int env_child_run(char *const *argv, int lock, const sigset_t *mask, int *ret,
		  int *ret_told, struct error *err) MUST_CHECK;

/* End this process with the command's exit status, or by the signal that ended it. */
void env_end_as(int status) __attribute__((noreturn));

#endif
