// SPDX-License-Identifier: Apache-2.0
#ifndef BOOTSEER_CONTAINERD_PLUGIN_USAGE_H
#define BOOTSEER_CONTAINERD_PLUGIN_USAGE_H

#include <stdint.h>

#include "common/error.h"

/*
 * Count what the tree `path` takes on its disk: allocated bytes and inodes, a
 * file with several names once.  Files that vanish meanwhile are no error.
 */
int usage_count(const char *path, int64_t *ret_size, int64_t *ret_inodes,
		struct error *err) MUST_CHECK;

#endif
