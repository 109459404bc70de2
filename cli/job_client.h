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
	const char
		*pid_file; /* where it writes the number of the first process */
	int in;            /* its standard input; -1: ours */
	int signals, status; /* FIFOs of job_init_main() */
	bool is_terminal;    /* the container has our terminal, by it */
};

/*
 * Run it until the container ends.  When containerd is started again, `ctr` ends, and a container
 * without a terminal goes on: its first process is waited for without containerd.
 *
 * Each signal that this process gets meanwhile goes to the container as a
 * byte of the FIFO, where it waits for the container's first process: `ctr` begins to pass signals
 * on some time after the container runs, and what comes before is lost, or ends `ctr` alone.
 *
 * `*ret_told`: the signal that told us to end (SIGHUP, SIGINT, SIGQUIT, SIGTERM), or 0.  When no
 * container takes it for ten seconds the client is killed.
 *
 * `*ret_status`: of the container, else of the client, as wait(2) has it.
 */
int job_client_run(const struct job_client *c, int *ret_status, int *ret_told,
		   struct error *err) MUST_CHECK;

/* The process in the file that ctr writes, or 0. */
pid_t job_client_read_pid(const char *pid_file);

#endif
