// SPDX-License-Identifier: Apache-2.0
/* Blocks that earlier images of a repository stored. */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_DEDUP_BASE_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_DEDUP_BASE_H

#include "image/writer/dedup_index.h"
#include "objects/oci.h"

#define DEDUP_BASE_ARTIFACTS_MAX 32 /* looked at, the last tags first */
#define DEDUP_BASE_TAGS_MAX 512     /* asked for */

struct dedup_base;
struct sign_terms;

/*
 * Read the block maps of the artifacts in the repository of `store` (borrowed).
 * An artifact that is damaged or of an unknown format is passed over; a store
 * that cannot be read is an error.  The same artifacts and signatures give the
 * same answers.
 *
 * Whoever may push to the repository may have written what a map says.  Maps of
 * artifacts that the key of `own` signed for its repository are believed; a block
 * that only others name is read and checked when the index is asked for it, and
 * is not found unless its bytes are right.  `own` NULL: every block is read.
 */
int dedup_base_load(struct oci_store *store, const struct sign_terms *own,
		    struct dedup_base **ret, struct error *err) MUST_CHECK;
void dedup_base_free(struct dedup_base *base);
DEFINE_AUTO(dedup_base)

/* For struct packer_config; borrowed. */
struct dedup_index *dedup_base_index(struct dedup_base *base);

#endif
