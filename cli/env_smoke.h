// SPDX-License-Identifier: Apache-2.0
/* The smoke test of an environment: does it work here? */
#ifndef BOOTSEER_CLI_ENV_SMOKE_H
#define BOOTSEER_CLI_ENV_SMOKE_H

#include <stdint.h>

#include "common/error.h"

/* Run the words of `command` by the shell, without input or output but standard error,
 * and end it at the deadline (CLOCK_MONOTONIC).  -ECANCELED: it failed; the message has
 * how.  Other errors: it could not be run. */
int env_smoke_run(const char *command, int64_t deadline_ns,
		  struct error *err) MUST_CHECK;

#endif
