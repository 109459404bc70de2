/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers by which the kernel knows images.
 *
 * A mount, or a descriptor that outlives one, names its image by an index only,
 * so an index must never lead to the bytes of another image as long as the kernel
 * may have it: not when the image is gone, not when the disk lost its folder or
 * damaged what is written there.  So each index in use is recorded in the run folder,
 * RUN/indexes/HEX -> INDEX, which lives as long as the mounts do, and that record
 * counts for more than the disk.  An image that comes back has its index again,
 * and its mounts with it.
 *
 * Safe from any thread.
 */
#ifndef BOOTSEER_NODE_INDEXES_H
#define BOOTSEER_NODE_INDEXES_H

#include <stdint.h>

#include "common/error.h"

#define INDEX_NONE UINT64_MAX

struct indexes;

/* Read `images_dir`/next-index and the records in `run_dir`, which is made if missing.  Damaged
 * files count as missing. */
int indexes_open(const char *images_dir, const char *run_dir,
		 struct indexes **ret, struct error *err) MUST_CHECK;
void indexes_close(struct indexes *x); /* NULL is allowed */

/* Note that an image on disk may have `index`, so that no new image gets it. */
void indexes_reserve(struct indexes *x, uint64_t index);

/*
 * Get the index of image `hex`: the one it had before; else `wanted`, unless that is
 * INDEX_NONE, out of range, or another image's; else a new one.
 */
int indexes_claim(struct indexes *x, const char *hex, uint64_t wanted,
		  uint64_t *ret, struct error *err) MUST_CHECK;

#endif
