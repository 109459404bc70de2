// SPDX-License-Identifier: Apache-2.0
/* Which transfers give way, and how fast those of a device are. With the fetcher's lock,
 * except where noted. */
#ifndef BOOTSEER_BLOCKSTORE_FETCHER_PACE_H
#define BOOTSEER_BLOCKSTORE_FETCHER_PACE_H

#include "blockstore/fetcher.h"

/* Call it when the transfer begins. */
void pace_begin(struct transfer *t);
/* A reader waits for the transfer now, or none does any more. */
void pace_await(struct transfer *t, bool is_awaited);
/* The transfer brought a whole block of so many stored bytes. */
void pace_brought(struct transfer *t, uint32_t bytes);
/* Bytes that a bulk request has recently brought in the time `ns`; UINT64_MAX: not known.
 * Also without the lock. */
uint64_t pace_bytes(const struct device *dev, int64_t ns);

#endif
