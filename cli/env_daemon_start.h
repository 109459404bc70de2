// SPDX-License-Identifier: Apache-2.0
/* A daemon of `bootseer env run`: its process, and whether it is ready. */
#ifndef BOOTSEER_CLI_ENV_DAEMON_START_H
#define BOOTSEER_CLI_ENV_DAEMON_START_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/error.h"

#define DAEMON_NAME_MAX 64

struct daemon_start {
	const char *command, *ready; /* borrowed; no `ready`: at once */
	char name[DAEMON_NAME_MAX + 1];
	const char *dir; /* borrowed */
	char *log;       /* its path */
	int log_fd, lock_fd;
	pid_t pid; /* child of ours; -1: it ran before */
	int pidfd; /* -1: it has ended well, and left others behind */
	/* The process is the first of a PID namespace, and all in that end with it. */
	bool in_namespace;
	bool is_behind; /* it went to the background; its first process is not reaped */
	int64_t deadline_ns; /* to be ready; CLOCK_MONOTONIC */
	const char *limit;   /* borrowed: the option that says the deadline */
};

/* Start it by the shell, in a session of its own. */
int daemon_spawn(struct daemon_start *s, struct error *err) MUST_CHECK;

/* Start it in a PID namespace and a time namespace of its own, without the lock, as a dump
 * has it. */
int daemon_spawn_alone(struct daemon_start *s, struct error *err) MUST_CHECK;

/* `pid` is a child of ours that was made before: the first of a PID namespace. */
int daemon_adopt(struct daemon_start *s, pid_t pid,
		 struct error *err) MUST_CHECK;

/* Wait for it, at most until the deadline.  -ECHILD: it has ended; -ETIMEDOUT. */
int daemon_wait_ready(struct daemon_start *s, struct error *err) MUST_CHECK;

/* End it, with its process group or its namespace. */
void daemon_kill(struct daemon_start *s);

#endif
