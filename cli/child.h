// SPDX-License-Identifier: Apache-2.0
/* Other programs that commands run. */
#ifndef BOOTSEER_CLI_CHILD_H
#define BOOTSEER_CLI_CHILD_H

#include <stdint.h>
#include <sys/types.h>

#include "common/buf.h"
#include "common/error.h"

/*
 * Start `argv` (looked for in PATH) with no input and the two descriptors as
 * its stdout and stderr, in a process group of its own, no signal
 * blocked, SIGPIPE not ignored.  The
 * caller waits for it.  -ENOENT: there is no such program.
 */
int child_start(char *const argv[], int out, int errors, pid_t *ret,
		struct error *err) MUST_CHECK;
/* The same with `in` as its stdin; -1: none. */
int child_start_with(char *const argv[], int in, int out, int errors,
		     pid_t *ret, struct error *err) MUST_CHECK;

/*
 * Run `argv` (looked for in PATH, no input) and append what it prints on
 * stdout and stderr to `ret`; what is over its limit is dropped.  Blocks until
 * the program has ended, at most `timeout_ms`, then kills its process group.
 *
 * `*ret_status` is its exit status, 128 + N when signal N ended it.
 *   -ENOENT     there is no such program
 *   -ETIMEDOUT  it did not end in time
 *   -ENOMEM, or another reason why it could not be started
 */
int child_capture(char *const argv[], int64_t timeout_ms, struct buf *ret,
		  int *ret_status, struct error *err) MUST_CHECK;

/* The same with these as stdin and stdout (a file), so that `ret` has what is
 * printed on stderr alone; -1: as above. */
int child_capture_with(char *const argv[], int stdin_fd, int stdout_fd,
		       int64_t timeout_ms, struct buf *ret, int *ret_status,
		       struct error *err) MUST_CHECK;

#endif
