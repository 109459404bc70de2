// SPDX-License-Identifier: Apache-2.0
/* Runs programs that give credentials: a question on stdin, the answer on stdout. */
#ifndef BOOTSEER_OBJECTS_CREDENTIAL_PROGRAM_H
#define BOOTSEER_OBJECTS_CREDENTIAL_PROGRAM_H

#include "common/buf.h"
#include "common/error.h"
#include "common/pace.h"

#define CREDENTIAL_QUESTION_MAX 4096 /* small enough for a pipe's buffer */

struct credential_program {
	char *const *argv; /* searched in PATH unless it is a path */
	char *const *envp;
	const char *input; /* at most CREDENTIAL_QUESTION_MAX bytes */
	struct pace *pace; /* may be NULL */
};

/*
 * Run a program to its end, for half a minute at most. Stores its output, which may be a secret,
 * in `answer` and its wait status in `*status`. -ECANCELED when the pace says stop.
 */
int credential_program_run(const struct credential_program *p,
			   struct buf *answer, int *status,
			   struct error *err) MUST_CHECK;

#endif
