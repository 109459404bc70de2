// SPDX-License-Identifier: Apache-2.0
/* A process that copies a program's output until no process can write any more. */
#ifndef BOOTSEER_CLI_JOB_RELAY_H
#define BOOTSEER_CLI_JOB_RELAY_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/error.h"

struct job_relay {
	int keep[2]; /* writing ends of ours, which keep the FIFOs open */
	int typed;   /* stdin of the process that runs the program; -1: ours */
	pid_t pid;
};

#define JOB_RELAY_INIT \
	{ \
		.keep = { -1, -1 }, .typed = -1 \
	}

/* Create the FIFOs DIR/out and DIR/err and copy what is written there to our stdout and stderr.
 * Lines with stage events are also written to `events`, unless it is -1.  If our stdin is a
 * terminal, typed input is copied to `typed`. */
int job_relay_start(const char *dir, int events, struct job_relay *ret,
		    struct error *err) MUST_CHECK;
/* Wait until all output is copied.  `has_writer`: the program outlives its client, and its later
 * output is not waited for. */
void job_relay_end(struct job_relay *r, bool has_writer);

#endif
