// SPDX-License-Identifier: Apache-2.0
/*
 * One command whose targets nobody named at a time on a system: what is captured of the
 * system's folders is what that command did, and not half of another one, too.
 */
#ifndef BOOTSEER_CLI_ENV_SYSTEM_H
#define BOOTSEER_CLI_ENV_SYSTEM_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/error.h"

/* In the environment of what the process runs that has the system: which lock it has, and
 * its number. */
#define ENV_SYSTEM_VARIABLE "BOOTSEER_ENV_SYSTEM"

/* Have it if nobody has; *ret as below.  False: another one has it. */
bool env_system_try(int *ret);

/*
 * Wait until the system is ours, as long as `*ret` is open and this process lives; -1: nobody
 * can say, or the process that has it runs us as part of its own command.  `waits` is called
 * once, when another one has it.
 * Returns 1 when it was waited for; -EBUSY: until `deadline_ns` (CLOCK_MONOTONIC).
 */
int env_system_take(int64_t deadline_ns, void (*waits)(void *arg), void *arg,
		    int *ret, struct error *err) MUST_CHECK;

/* From now on the environment says that `holder` has `system`, which is its `*ret`, and runs
 * us; -1: it has none. */
void env_system_pass(int system, pid_t holder);

#endif
