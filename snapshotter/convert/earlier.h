// SPDX-License-Identifier: Apache-2.0
/* Blocks that earlier images of a repository stored. */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_EARLIER_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_EARLIER_H

#include "blockstore/oci.h"
#include "snapshotter/convert/packer.h"

#define EARLIER_ARTIFACTS_MAX 32      /* looked at, the last tags first */
#define EARLIER_TAGS_MAX 512          /* asked for */
#define EARLIER_BLOCKS_MAX (1u << 20) /* remembered */
#define EARLIER_MAP_MAX (64u << 20)   /* bytes of a block map; else skipped */

struct earlier;

/*
 * Read the block maps of the artifacts in the repository of `store` (borrowed).
 * An artifact that is damaged or of an unknown format is passed over; a store
 * that cannot be read is an error.  The same artifacts give the same answers.
 */
int earlier_load(struct oci_store *store, struct earlier **ret,
		 struct error *err) MUST_CHECK;
void earlier_free(struct earlier *e);
DEFINE_AUTO(earlier)

/* For struct packer_config; borrowed. */
struct pack_index *earlier_index(struct earlier *e);

#endif
