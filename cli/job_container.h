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
	char *dir; /* ours; "in" in it is the container's */
	char id[48];
	int lock; /* of `dir`, while the job runs, or -1 */
	char *pid_file;
	int signals,
		status; /* to the container's first process and from it, or -1 */
	struct job_words words;
	struct job_relay relay;
	pid_t socket; /* of 'env socket', or 0 */
	bool is_terminal;
};

/* How the image comes to the node. */
void job_container_pull(const struct job_file *f, struct job_part *ret);

/* All but the container: `words` is what starts it, with `command` in it.  `is_lazy`: by
 * bootseer's snapshotter. */
int job_container_open(struct job_container *c, bool is_lazy,
		       char *const *command, int events,
		       struct error *err) MUST_CHECK;
/* Start it, and wait for its end: job_client_run(). */
int job_container_run(const struct job_container *c, const sigset_t *mask,
		      int *ret_status, int *ret_told,
		      struct error *err) MUST_CHECK;
/* Nothing of it is left, in containerd either. */
void job_container_close(struct job_container *c);

/* The words that start the container, for people, before anything is there. */
void job_container_words(struct job_container *c, bool is_lazy,
			 char *const *command);

/* The container's first process, once it is there; 0. */
pid_t job_container_pid(const struct job_container *c);

#endif
