// SPDX-License-Identifier: Apache-2.0
/* A program's output, passed on by a process of its own until nobody can write more. */
#ifndef BOOTSEER_CLI_JOB_RELAY_H
#define BOOTSEER_CLI_JOB_RELAY_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/error.h"

struct job_relay {
	int keep[2]; /* the last writers, so that there is no end before */
	int typed;   /* standard input of who runs the program, or -1: ours */
	pid_t pid;
};

#define JOB_RELAY_INIT \
	{ \
		.keep = { -1, -1 }, .typed = -1 \
	}

/* Pass what is written to the FIFOs DIR/out and DIR/err, which are made, to our stdout and
 * stderr, and lines of stages to `events`, too, unless it is -1.  Where our stdin is a
 * terminal, what is typed there goes to `typed`. */
int job_relay_start(const char *dir, int events, struct job_relay *ret,
		    struct error *err) MUST_CHECK;
/* All that was written is passed on; `has_writer`: the program outlives who ran it, and what it
 * writes from now on is not waited for. */
void job_relay_end(struct job_relay *r, bool has_writer);

#endif
