// SPDX-License-Identifier: Apache-2.0
#ifndef BOOTSEER_BLOCKSTORE_SPAN_MAP_CHECK_H
#define BOOTSEER_BLOCKSTORE_SPAN_MAP_CHECK_H

#include "blockstore/blockstore.h"

/* Check each span and place of a map whose counts and packs are checked.  -EINVAL
 * says which and why. */
int span_map_check(const struct blockmap *m, struct error *err) MUST_CHECK;

#endif
