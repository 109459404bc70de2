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

/* The last line of what a program said on stderr, made printable: most say there why they
 * fail, and lines before it may be warnings.  "it failed" where it said nothing. */
const char *child_last_line(struct buf *said);

/*
 * Run `argv` as child_capture() does, with `in` as its input (-1: none), and append what
 * it prints on stdout to `ret`, which may be NULL; what it prints on stderr goes to `said`.
 * `env` has variables "NAME=VALUE" up to a NULL, which the program gets beside those of this
 * process, in whose place they stand; of two of one name the last holds.  NULL: none.
 * -EFBIG: it prints more than `limit` bytes.
 */
int child_read_output(char *const argv[], char *const env[], int in,
		      size_t limit, int64_t timeout_ms, struct buf *ret,
		      struct buf *said, int *ret_status,
		      struct error *err) MUST_CHECK;

#endif
