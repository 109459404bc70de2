// SPDX-License-Identifier: Apache-2.0
/*
 * A container that the command line runs by runc, in the foreground: its output
 * is passed on, and watched.  One thread; the signals of signal_fd are blocked.
 */
#ifndef BOOTSEER_CLI_CONTAINER_H
#define BOOTSEER_CLI_CONTAINER_H

#include <stdint.h>

#include "common/error.h"

struct container_config {
	const char *dir; /* bundle: config.json is there; files are made */
	const char *id;
	const char *ready_file; /* absolute, in the container; NULL */
	const char *ready_line; /* extended regular expression; NULL */
	int signal_fd;          /* signals that end the run */
};

struct container;

/* -EINVAL: `line` is no extended regular expression. */
int container_line_check(const char *line, struct error *err) MUST_CHECK;

/* -EINVAL: the expression; -ENOENT: no runc here. */
int container_start(const struct container_config *cfg, struct container **ret,
		    struct error *err) MUST_CHECK;

enum container_event {
	CONTAINER_READY, /* the file is there, or the line was printed */
	CONTAINER_ENDED,
	CONTAINER_LATE,   /* `until_ns` is over */
	CONTAINER_SIGNAL, /* one of ours */
};

/* Wait for the first of these.  `until_ns`: CLOCK_MONOTONIC. */
int container_wait(struct container *c, int64_t until_ns,
		   enum container_event *ret, struct error *err) MUST_CHECK;

/* Exit status of what ended: 128 + N after signal N. */
int container_status(const struct container *c);

/* Kill it if it runs, pass on what it printed still, and remove what runc keeps
 * of it.  NULL is allowed. */
void container_free(struct container *c);

#endif
