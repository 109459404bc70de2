// SPDX-License-Identifier: Apache-2.0
/* Reap a child process, and forbid core dumps of this one. */
#ifndef BOOTSEER_COMMON_PROCESS_H
#define BOOTSEER_COMMON_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

#include "common/error.h"

/*
 * Wait for the end of the child `pid`, and store its wait status in `*status`.  The child, with
 * the process group that it may lead, is killed when it does not end within `timeout_ms`, or at
 * once if `rc` < 0: an earlier step failed.  Blocks; any thread.
 *
 * Returns `rc` where that is below 0, else 0, -ETIMEDOUT, or the error of pidfd_open(2).
 */
int process_reap(pid_t pid, int64_t timeout_ms, int rc, int *status,
		 struct error *err) MUST_CHECK;

/* Have no core of this process and its children written to a file or piped to a program, as their
 * memory holds secrets. */
int process_forbid_core(struct error *err) MUST_CHECK;

#endif
