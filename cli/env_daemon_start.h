// SPDX-License-Identifier: Apache-2.0
/* Start a daemon of `bootseer env run` and check whether it is ready. */
#ifndef BOOTSEER_CLI_ENV_DAEMON_START_H
#define BOOTSEER_CLI_ENV_DAEMON_START_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/error.h"

#define DAEMON_NAME_MAX 64

struct daemon_start {
	const char *command, *ready; /* borrowed; `ready` NULL: ready at once */
	char name[DAEMON_NAME_MAX + 1];
	const char *dir; /* borrowed */
	char *log;       /* path of its log */
	int log_fd, lock_fd;
	pid_t pid; /* child of ours; -1: the daemon was running before */
	int pidfd; /* -1: the first process ended, others go on */
	/* The process is the first of a PID namespace, whose processes end with it. */
	bool in_namespace;
	bool is_behind;      /* its first process ended and is not reaped */
	int64_t deadline_ns; /* deadline for being ready; CLOCK_MONOTONIC */
	const char *limit;   /* borrowed: the option that sets the deadline */
};

/* Start the daemon by the shell, in a session of its own. */
int daemon_spawn(struct daemon_start *s, struct error *err) MUST_CHECK;

/* Start the daemon in its own PID and time namespace, without the lock, so that it can be
 * dumped. */
int daemon_spawn_alone(struct daemon_start *s, struct error *err) MUST_CHECK;

/* Take over `pid`, an existing child of ours that is the first process of a PID namespace. */
int daemon_adopt(struct daemon_start *s, pid_t pid,
		 struct error *err) MUST_CHECK;

/* Wait until the daemon is ready.  -ECHILD: it has ended; -ETIMEDOUT: the deadline passed. */
int daemon_wait_ready(struct daemon_start *s, struct error *err) MUST_CHECK;

/* Kill the daemon with its process group or its namespace. */
void daemon_kill(struct daemon_start *s);

#endif
