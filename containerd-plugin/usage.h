// SPDX-License-Identifier: Apache-2.0
#ifndef BOOTSEER_CONTAINERD_PLUGIN_USAGE_H
#define BOOTSEER_CONTAINERD_PLUGIN_USAGE_H

#include <stdint.h>

#include "common/error.h"

/* Most entries that are counted of a tree that somebody may change meanwhile. Beyond that
 * are millions of folders. */
#define USAGE_STEPS_MAX (UINT64_C(1) << 26)

/*
 * Count what the tree `path` takes on its disk: allocated bytes and inodes, a
 * file with several names once.  Files that vanish meanwhile are no error.
 *
 * `steps_max` bounds the work where a container may make more of it all the time: an
 * entry is a step, a folder some more.  What is beyond is left out.
 */
int usage_count(const char *path, uint64_t steps_max, int64_t *ret_size,
		int64_t *ret_inodes, struct error *err) MUST_CHECK;

#endif
