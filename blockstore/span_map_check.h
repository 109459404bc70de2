// SPDX-License-Identifier: Apache-2.0
#ifndef BOOTSEER_BLOCKSTORE_SPAN_MAP_CHECK_H
#define BOOTSEER_BLOCKSTORE_SPAN_MAP_CHECK_H

#include "blockstore/blockstore.h"

/* Check each span and place of a map whose counts and packs are checked, and set its
 * stored_share.  -EINVAL says which and why. */
int span_map_check(struct blockmap *m, struct error *err) MUST_CHECK;

#endif
