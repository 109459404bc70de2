// SPDX-License-Identifier: Apache-2.0
/* The container of a job: pulled and run by containerd's `ctr`. */
#ifndef BOOTSEER_CLI_JOB_CONTAINER_H
#define BOOTSEER_CLI_JOB_CONTAINER_H

#include <signal.h>

#include "cli/job_parts.h"
#include "cli/job_relay.h"

struct job_container {
	const struct job_file *file;
	const char *self;
	char *dir; /* owned; "in" in it is mounted into the container */
	char id[48];
	int lock; /* lock of `dir`, while the job runs; -1: none */
	char *pid_file;
	int signals, status; /* FIFOs to and from the container's first process;
	                      * -1: none */
	struct job_words words;
	struct job_relay relay;
	pid_t socket; /* process of 'env socket'; 0: none */
	bool is_terminal;
};

/* Make the part that pulls the image. */
void job_container_pull(const struct job_file *f, struct job_part *ret);

/* Prepare all but the container: `words` becomes the command that starts it, running `command`.
 * `is_lazy`: use bootseer's snapshotter. */
int job_container_open(struct job_container *c, bool is_lazy,
		       char *const *command, int events,
		       struct error *err) MUST_CHECK;
/* Start the container and wait for its end, by job_client_run(). */
int job_container_run(const struct job_container *c, const sigset_t *mask,
		      int *ret_status, int *ret_told,
		      struct error *err) MUST_CHECK;
/* Remove all of it, in containerd too. */
void job_container_close(struct job_container *c);

/* Only make the words that start the container, to be printed: nothing is created. */
void job_container_words(struct job_container *c, bool is_lazy,
			 char *const *command);

/* The number of the container's first process; 0: not started. */
pid_t job_container_pid(const struct job_container *c);

#endif
