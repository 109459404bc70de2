// SPDX-License-Identifier: Apache-2.0
/*
 * Do the files of a metadata image and the blocks of a map fit?  Each byte that a file
 * has in the device is in a block, and each block holds what some file has.
 */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_COVERED_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_COVERED_H

#include "blockstore/blockstore.h"
#include "common/error.h"

/* `*ret_bytes`: of the device, in blocks.  -EBADMSG names the file or the block that
 * does not fit. */
int covered_check(const struct blockmap *m, const void *meta, size_t len,
		  uint64_t *ret_bytes, struct error *err) MUST_CHECK;

#endif
