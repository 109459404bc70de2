// SPDX-License-Identifier: Apache-2.0
/* The end of a program that was run, and of this one. */
#ifndef BOOTSEER_COMMON_PROCESS_H
#define BOOTSEER_COMMON_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

#include "common/error.h"

/*
 * Wait for the end of the child `pid`, and store its wait status in `*status`.  It is
 * killed, with the process group that it leads, when it does not end within `timeout_ms`,
 * or at once where `rc` says that something failed before.  Blocks; any thread.
 *
 * Returns `rc` where that is below 0, else 0, -ETIMEDOUT, or what pidfd_open(2) says.
 */
int process_reap(pid_t pid, int64_t timeout_ms, int rc, int *status,
		 struct error *err) MUST_CHECK;

/* Have no core of this process and of its children written, nor given to a program: secrets
 * are in their memory. */
int process_forbid_core(struct error *err) MUST_CHECK;

#endif
