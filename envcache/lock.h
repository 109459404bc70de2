// SPDX-License-Identifier: Apache-2.0
/*
 * Locks of targets: only one command at a time may have a target, and no other may have a folder
 * inside or around it.  So a capture has only that command's changes, not half of another
 * command's.
 */
#ifndef BOOTSEER_ENVCACHE_LOCK_H
#define BOOTSEER_ENVCACHE_LOCK_H

#include <stdbool.h>
#include <sys/types.h>

#include "envcache/envcache.h"

/* Variable for the children of a process that has locked targets: the lock and the process's
 * number. */
#define ENV_LOCK_VARIABLE "BOOTSEER_ENV_SYSTEM"

/* Lock the targets without waiting; `*ret` as for env_lock_take().  False: another process has
 * some of them. */
bool env_lock_try(const struct env_targets *t, int *ret);

/*
 * Wait until all targets are locked, which lasts as long as `*ret` is open and this process lives.
 * *ret -1: locking is not possible, or the holder runs us as part of its own command.  `waits` is
 * called once if another process has some of the targets.  Returns 1 if it waited; -EBUSY:
 * `deadline_ns` (CLOCK_MONOTONIC) passed.
 */
int env_lock_take(const struct env_targets *t, int64_t deadline_ns,
		  void (*waits)(void *arg), void *arg, int *ret,
		  struct error *err) MUST_CHECK;

/* Set the environment variable: `holder` has the lock with the descriptor `lock` and runs us; -1:
 * it has none. */
void env_lock_pass(int lock, pid_t holder);

#endif
