// SPDX-License-Identifier: Apache-2.0
#ifndef BOOTSEER_CONTAINERD_PLUGIN_USAGE_H
#define BOOTSEER_CONTAINERD_PLUGIN_USAGE_H

#include <stdint.h>

#include "common/error.h"

/* Limit of entries counted in a tree that may change meanwhile; only trees with millions of
 * folders exceed it. */
#define USAGE_STEPS_MAX (UINT64_C(1) << 26)

/*
 * Count the disk usage of the tree `path`: allocated bytes and inodes; a file with several names
 * counts once. Files that vanish meanwhile are no error.
 *
 * `steps_max` limits the work, as a container may add entries all the time: an entry is a step,
 * a folder several. The rest is left out.
 */
int usage_count(const char *path, uint64_t steps_max, int64_t *ret_size,
		int64_t *ret_inodes, struct error *err) MUST_CHECK;

#endif
