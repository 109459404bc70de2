// SPDX-License-Identifier: Apache-2.0
/* Programs that are asked for credentials: a question on stdin, an answer on stdout. */
#ifndef BOOTSEER_OBJECTS_CREDENTIAL_PROGRAM_H
#define BOOTSEER_OBJECTS_CREDENTIAL_PROGRAM_H

#include "common/buf.h"
#include "common/error.h"
#include "common/pace.h"

#define CREDENTIAL_QUESTION_MAX 4096 /* a pipe takes it at once */

struct credential_program {
	char *const *argv; /* looked for in PATH unless it is a path */
	char *const *envp;
	const char *input; /* at most CREDENTIAL_QUESTION_MAX bytes */
	struct pace *pace; /* may be NULL */
};

/*
 * Run it to its end, for half a minute at most.  `answer`, which may be a secret, is what it
 * said, `*status` its wait status.  -ECANCELED when the pace says stop.
 */
int credential_program_run(const struct credential_program *p,
			   struct buf *answer, int *status,
			   struct error *err) MUST_CHECK;

#endif
