// SPDX-License-Identifier: Apache-2.0
/* Loop devices that go when their last user does. */
#ifndef BOOTSEER_COMMON_LOOPS_H
#define BOOTSEER_COMMON_LOOPS_H

#include <stdbool.h>

#include "common/error.h"

#define LOOP_PATH_MAX 32

/*
 * Make a read-only loop device of `file`, and open it: the device goes with the
 * last descriptor or mount.  `path` becomes its name.
 */
int loop_open(const char *file, char path[LOOP_PATH_MAX], int *ret_fd,
	      struct error *err) MUST_CHECK;

/* The same, for a file system that is written to. */
int loop_open_writable(const char *file, char path[LOOP_PATH_MAX], int *ret_fd,
		       struct error *err) MUST_CHECK;

/* Is `path` (/dev/loopN) a loop device of `file`?  Allocates nothing. */
bool loop_is_of(const char *path, const char *file);

#endif
