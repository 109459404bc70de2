// SPDX-License-Identifier: Apache-2.0
/* Run containerd's client for a job's container, and pass signals to the container. */
#ifndef BOOTSEER_CLI_JOB_CLIENT_H
#define BOOTSEER_CLI_JOB_CLIENT_H

#include <signal.h>
#include <stdbool.h>

#include "common/error.h"

struct job_client {
	char *const *argv;
	const sigset_t *mask; /* signal mask for the client */
	const char *pid_file; /* file to which the client writes the number of
	                       * the container's first process */
	int in;               /* the client's stdin; -1: ours */
	int signals, status;  /* FIFOs of job_init_main() */
	bool is_terminal;     /* the container has our terminal, through the
	                       * client */
};

/*
 * Run the client until the container ends.  `ctr` ends when containerd restarts, but a container
 * without a terminal goes on; then its first process is waited for directly.
 *
 * Each signal to this process is written as a byte to a FIFO, which the container's first process
 * reads.  `ctr` would only pass signals on some time after the container started; earlier ones
 * would be lost or end `ctr` alone.
 *
 * `*ret_told` is the signal that told us to end (SIGHUP, SIGINT, SIGQUIT, SIGTERM), or 0.  If the
 * container does not read it within ten seconds, the client is killed.
 *
 * `*ret_status` is the container's status, or else the client's, as wait(2) has it.
 */
int job_client_run(const struct job_client *c, int *ret_status, int *ret_told,
		   struct error *err) MUST_CHECK;

/* Read the process number from the file that ctr writes; 0: none. */
pid_t job_client_read_pid(const char *pid_file);

#endif
