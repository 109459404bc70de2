// SPDX-License-Identifier: Apache-2.0
/*
 * Stages of the job's start: to bootseer-events where it follows this node's processes, else
 * to a service that the file names, else on standard error.
 */
#ifndef BOOTSEER_CLI_JOB_SAY_H
#define BOOTSEER_CLI_JOB_SAY_H

#include <sys/types.h>

#include "cli/job_file.h"
#include "profiler/emit/emit.h"

struct job_say {
	const struct job_file *file;
	struct stage_emitter *emitter; /* NULL: nobody follows */
	int sender_fd;                 /* what 'stage send' reads, or -1 */
	pid_t sender;
};

/* `self` is this program. */
void job_say_begin(struct job_say *s, const struct job_file *f,
		   const char *self);
void job_say(struct job_say *s, const char *stage, enum stage_ev ev,
	     int64_t status);
/* Wait until all that was said is sent, or it took too long. */
void job_say_end(struct job_say *s);

#endif
