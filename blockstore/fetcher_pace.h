// SPDX-License-Identifier: Apache-2.0
/* Which transfers give way, and how fast those of a device are.  With the fetcher's lock,
 * unless it is said. */
#ifndef BOOTSEER_BLOCKSTORE_FETCHER_PACE_H
#define BOOTSEER_BLOCKSTORE_FETCHER_PACE_H

#include "blockstore/fetcher.h"

/* Begin with it. */
void pace_begin(struct transfer *t);
/* A reader waits for it, or no one any more. */
void pace_await(struct transfer *t, bool is_awaited);
/* The transfer brought a whole block, of so many stored bytes. */
void pace_brought(struct transfer *t, uint32_t bytes);
/* So many bytes a request of bulk brings in that time of late; UINT64_MAX: that is not
 * known.  Without the lock, too. */
uint64_t pace_bytes(const struct device *dev, int64_t ns);

#endif
