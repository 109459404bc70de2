// SPDX-License-Identifier: Apache-2.0
/*
 * Locks of targets: one command at a time has a target, and no other has one that lies in
 * it or around it: what is captured is what that command did, and not half of another
 * one, too.
 */
#ifndef BOOTSEER_ENVCACHE_LOCK_H
#define BOOTSEER_ENVCACHE_LOCK_H

#include <stdbool.h>
#include <sys/types.h>

#include "envcache/envcache.h"

/* In the environment of what the process runs that has targets: which lock it has, and
 * its number. */
#define ENV_LOCK_VARIABLE "BOOTSEER_ENV_SYSTEM"

/* Have the targets if nobody has; *ret as below.  False: another one has some of them. */
bool env_lock_try(const struct env_targets *t, int *ret);

/*
 * Wait until all targets are ours, as long as `*ret` is open and this process lives; -1: nobody
 * can say, or the process that has them runs us as part of its own command.  `waits` is called
 * once, when another one has some of them.
 * Returns 1 when it was waited for; -EBUSY: until `deadline_ns` (CLOCK_MONOTONIC).
 */
int env_lock_take(const struct env_targets *t, int64_t deadline_ns,
		  void (*waits)(void *arg), void *arg, int *ret,
		  struct error *err) MUST_CHECK;

/* From now on the environment says that `holder` has `lock`, which is its `*ret`, and runs
 * us; -1: it has none. */
void env_lock_pass(int lock, pid_t holder);

#endif
