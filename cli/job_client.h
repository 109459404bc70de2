// SPDX-License-Identifier: Apache-2.0
/* Containerd's client while the container of a job runs, and signals past it. */
#ifndef BOOTSEER_CLI_JOB_CLIENT_H
#define BOOTSEER_CLI_JOB_CLIENT_H

#include <signal.h>
#include <stdbool.h>

#include "common/error.h"

struct job_client {
	char *const *argv;
	const sigset_t *mask; /* that it begins with */
	int in;               /* its standard input; -1: ours */
	int signals;          /* a FIFO that job_init_main() reads */
	bool is_terminal;     /* the container has our terminal, by it */
};

/*
 * Run it until it ends.  Each signal that this process gets meanwhile goes to the container as a
 * byte of the FIFO, where it waits for the container's first process: `ctr` begins to pass signals
 * on some time after the container runs, and what comes before is lost, or ends `ctr` alone.
 *
 * `*ret_told`: the signal that told us to end (SIGHUP, SIGINT, SIGQUIT, SIGTERM), or 0.  When no
 * container takes it for ten seconds the client is killed.
 */
int job_client_run(const struct job_client *c, int *ret_status, int *ret_told,
		   struct error *err) MUST_CHECK;

#endif
