// SPDX-License-Identifier: Apache-2.0
/* Run other programs. */
#ifndef BOOTSEER_CLI_CHILD_H
#define BOOTSEER_CLI_CHILD_H

#include <stdint.h>
#include <sys/types.h>

#include "common/buf.h"
#include "common/error.h"

/*
 * Start `argv` (searched in PATH) with no input and the two descriptors as its stdout and stderr.
 * It has its own process group, no blocked signals, and SIGPIPE not ignored.  The caller waits for
 * it.  -ENOENT: there is no such program.
 */
int child_start(char *const argv[], int out, int errors, pid_t *ret,
		struct error *err) MUST_CHECK;
/* child_start() with `in` as the program's stdin; -1: none. */
int child_start_with(char *const argv[], int in, int out, int errors,
		     pid_t *ret, struct error *err) MUST_CHECK;

/*
 * Start `argv` as child_start() does, and have it end when this process does, by whatever
 * signal: its process group then gets SIGTERM, and SIGKILL when the program has ended, or
 * after 10 s.
 *
 * `*ret` leads the group: a process of ours, the program's parent, which ends when the program
 * does, with its exit status, or 128 + N when signal N ended it.  127 or 126: the program
 * cannot be run, and `errors` has got why.  Not for a process with threads.
 */
int child_start_tied(char *const argv[], int out, int errors, pid_t *ret,
		     struct error *err) MUST_CHECK;

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

/* child_capture() with these descriptors as stdin and stdout (a file), so that `ret` only gets
 * what is printed on stderr; -1: as in child_capture(). */
int child_capture_with(char *const argv[], int stdin_fd, int stdout_fd,
		       int64_t timeout_ms, struct buf *ret, int *ret_status,
		       struct error *err) MUST_CHECK;

/* The last line that a program printed on stderr, made printable: most programs say there why they
 * failed, and the lines before may be warnings. "it failed" if nothing was printed. */
const char *child_last_line(struct buf *said);

/*
 * Run `argv` as child_capture() does, with `in` as its input (-1: none).  Append its stdout to
 * `ret` (may be NULL) and its stderr to `said`.  `env` (may be NULL) has variables "NAME=VALUE" up
 * to a NULL, which are added to those of this process and replace those of equal names; of equal
 * names in `env` the last wins.  -EFBIG: it prints more than `limit` bytes.
 */
int child_read_output(char *const argv[], char *const env[], int in,
		      size_t limit, int64_t timeout_ms, struct buf *ret,
		      struct buf *said, int *ret_status,
		      struct error *err) MUST_CHECK;

#endif
