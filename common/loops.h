// SPDX-License-Identifier: Apache-2.0
/* Loop devices that are detached when their last user closes them. */
#ifndef BOOTSEER_COMMON_LOOPS_H
#define BOOTSEER_COMMON_LOOPS_H

#include <stdbool.h>

#include "common/error.h"

#define LOOP_PATH_MAX 32

/*
 * Attach `file` read-only to a free loop device and open it; the device's name is stored in
 * `path`.  It is detached when the last descriptor or mount is gone.
 */
int loop_open(const char *file, char path[LOOP_PATH_MAX], int *ret_fd,
	      struct error *err) MUST_CHECK;

/* loop_open() for a file system that is written to. */
int loop_open_writable(const char *file, char path[LOOP_PATH_MAX], int *ret_fd,
		       struct error *err) MUST_CHECK;

/* Is `path` (/dev/loopN) a loop device with `file` attached?  Allocates nothing. */
bool loop_is_of(const char *path, const char *file);

#endif
