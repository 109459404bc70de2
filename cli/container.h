// SPDX-License-Identifier: Apache-2.0
/*
 * Run a container by runc, in the foreground: its output is copied to ours and watched for the
 * sign that it is ready.  One thread; the signals of signal_fd are blocked.
 */
#ifndef BOOTSEER_CLI_CONTAINER_H
#define BOOTSEER_CLI_CONTAINER_H

#include <stdint.h>

#include "common/error.h"

struct container_config {
	const char *dir; /* the bundle: has config.json, gets more files */
	const char *id;
	const char *ready_file; /* path in the container; may be NULL */
	const char *ready_line; /* regular expression (extended); may be NULL */
	int signal_fd;          /* signals that end the run */
};

struct container;

/* -EINVAL: `line` is not a valid extended regular expression. */
int container_line_check(const char *line, struct error *err) MUST_CHECK;

/* Start the container.  -EINVAL: ready_line is invalid; -ENOENT: runc is not installed. */
int container_start(const struct container_config *cfg, struct container **ret,
		    struct error *err) MUST_CHECK;

enum container_event {
	CONTAINER_READY, /* the ready file exists, or its line came */
	CONTAINER_ENDED,
	CONTAINER_LATE,   /* the time `until_ns` has come */
	CONTAINER_SIGNAL, /* a signal of signal_fd came */
};

/* Wait for the first event.  `until_ns` is a time of CLOCK_MONOTONIC. */
int container_wait(struct container *c, int64_t until_ns,
		   enum container_event *ret, struct error *err) MUST_CHECK;

/* Exit status of the ended container: 128 + N if signal N ended it. */
int container_status(const struct container *c);

/* Kill the container if it runs, copy the rest of its output, and remove runc's state of it.  NULL
 * is allowed. */
void container_free(struct container *c);

#endif
