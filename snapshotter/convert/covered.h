// SPDX-License-Identifier: Apache-2.0
/*
 * Do the files of a metadata image and the blocks of a map fit together?  Each byte of a file
 * in the device must be in a block, and each block must hold bytes of files only.
 */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_COVERED_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_COVERED_H

#include "blockstore/blockstore.h"
#include "common/error.h"

/* `*ret_bytes`: how many bytes of the device are in blocks.  -EBADMSG names a file or block
 * that does not fit. */
int covered_check(const struct blockmap *m, const void *meta, size_t len,
		  uint64_t *ret_bytes, struct error *err) MUST_CHECK;

#endif
