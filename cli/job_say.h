// SPDX-License-Identifier: Apache-2.0
/*
 * Reports the stages of a job's start: to bootseer-events if that follows this node's processes,
 * else to the service that the file names, else on standard error.
 */
#ifndef BOOTSEER_CLI_JOB_SAY_H
#define BOOTSEER_CLI_JOB_SAY_H

#include <sys/types.h>

#include "cli/job_file.h"
#include "profiler/emit/emit.h"

struct job_say {
	const struct job_file *file;
	struct stage_emitter *emitter; /* NULL: no bootseer-events here */
	int sender_fd;                 /* pipe to 'stage send'; -1: none */
	pid_t sender;
};

/* `self` is the path of this program. */
void job_say_begin(struct job_say *s, const struct job_file *f,
		   const char *self);
void job_say(struct job_say *s, const char *stage, enum stage_ev ev,
	     int64_t status);
/* Wait until all stages are sent, or a timeout. */
void job_say_end(struct job_say *s);

#endif
