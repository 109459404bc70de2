// SPDX-License-Identifier: Apache-2.0
/*
 * One command whose targets nobody named at a time on a system: what is captured of the
 * system's folders is what that command did, and not half of another one, too.
 */
#ifndef BOOTSEER_CLI_ENV_SYSTEM_H
#define BOOTSEER_CLI_ENV_SYSTEM_H

#include "common/error.h"

/*
 * Wait until the system is ours, as long as `*ret` is open and this process lives; -1: nobody
 * can say, or the process that has it runs us as part of its own command.  `waits` is called
 * once, when another one has it.
 * Returns 1 when it was waited for; -EBUSY: until `deadline_ns` (CLOCK_MONOTONIC).
 */
int env_system_take(int64_t deadline_ns, void (*waits)(void *arg), void *arg,
		    int *ret, struct error *err) MUST_CHECK;

#endif
