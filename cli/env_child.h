// SPDX-License-Identifier: Apache-2.0
/* A command that is run as if its caller were not there. */
#ifndef BOOTSEER_CLI_ENV_CHILD_H
#define BOOTSEER_CLI_ENV_CHILD_H

#include <signal.h>
#include <stdbool.h>

#include "common/error.h"

/* Before anything else: SIGPIPE is ignored from now on, SIGCHLD is not. */
void env_signals_take(void);
/* Was the signal ignored when this process began, as a hangup under nohup(1)? */
bool env_signal_is_ignored(int sig);

/* The signals that whoever stands for a command blocks and passes on to it: all but those that
 * come of what this process does itself. */
void env_child_signals(sigset_t *ret);

/* Become the command.  Returns, with the exit status for the failure, only when that
 * cannot be; the message is in `err`. */
int env_become(char *const *argv, struct error *err);

/*
 * Run the command with our input and output, in our process group; signals that are
 * sent to us go to it, and it is stopped, continued and killed with us.  Returns when it
 * has ended, with wait(2)'s status in `*ret`, and in `*ret_told`, if that is not NULL, the
 * signal by which it was told to end meanwhile (SIGHUP, SIGINT, SIGQUIT, SIGTERM), or 0:
 * however it ended, it may not have done all of it.  `lock`: as of env_lock_take().
 *
 * `mask`: NULL, or the signal mask that the command begins with, from a caller that blocks
 * signals and has other children: only the command is reaped then, since the caller still
 * signals its children by their numbers.
 */
int env_child_run(char *const *argv, int lock, const sigset_t *mask, int *ret,
		  int *ret_told, struct error *err) MUST_CHECK;

/* End as the command did: by its status, or its signal. */
void env_end_as(int status) __attribute__((noreturn));

#endif
