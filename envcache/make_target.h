// SPDX-License-Identifier: Apache-2.0
/* A target that is not there yet, and the folders above it. */
#ifndef BOOTSEER_ENVCACHE_MAKE_TARGET_H
#define BOOTSEER_ENVCACHE_MAKE_TARGET_H

#include "common/error.h"

/* Told of each folder that was made: it is open as `fd`, empty, and its user's alone. */
typedef int made_folder_fn(void *arg, int fd, const char *path,
			   struct error *err);

/* Make what is missing of the absolute path.  No link is followed, and nothing is looked up
 * twice: whoever may rename in a folder above cannot have another file given away. */
int make_target(const char *path, made_folder_fn *fn, void *arg,
		struct error *err) MUST_CHECK;

#endif
