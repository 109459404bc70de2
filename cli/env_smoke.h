// SPDX-License-Identifier: Apache-2.0
/* The smoke test of an environment: does it work on this node? */
#ifndef BOOTSEER_CLI_ENV_SMOKE_H
#define BOOTSEER_CLI_ENV_SMOKE_H

#include <stdint.h>

#include "envcache/restore.h"

/* Run `command` by the shell, with only stderr for output, and kill it at the deadline
 * (CLOCK_MONOTONIC).  -ECANCELED: the test failed; the message says how.  Other errors: it could
 * not be run. */
int env_smoke_run(const char *command, int64_t deadline_ns,
		  struct error *err) MUST_CHECK;

/* The test as the check of a restore: a failure counts for all nodes. */
struct env_smoke_check {
	struct env_restore_check base; /* env_smoke_is_good() */
	const char *command;           /* borrowed; NULL: there is no test */
	int64_t timeout_ns;
};
int env_smoke_is_good(struct env_restore_check *base,
		      struct error *err) MUST_CHECK;

#endif
