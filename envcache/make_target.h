// SPDX-License-Identifier: Apache-2.0
/* Create a missing target, and the folders above it. */
#ifndef BOOTSEER_ENVCACHE_MAKE_TARGET_H
#define BOOTSEER_ENVCACHE_MAKE_TARGET_H

#include "common/error.h"

/* Called with each created folder: open as `fd`, empty, accessible to its owner only. */
typedef int made_folder_fn(void *arg, int fd, const char *path,
			   struct error *err);

/* Create the missing part of the absolute path.  No link is followed and no name looked up twice,
 * so that a user who can rename in a folder above cannot redirect us to another folder. */
int make_target(const char *path, made_folder_fn *fn, void *arg,
		struct error *err) MUST_CHECK;

#endif
