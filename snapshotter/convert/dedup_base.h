// SPDX-License-Identifier: Apache-2.0
/* The blocks that earlier images of a repository have stored, for reuse by a new image. */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_DEDUP_BASE_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_DEDUP_BASE_H

#include "image/writer/dedup_index.h"
#include "objects/oci.h"

/* artifacts that are read, those of the last tags first */
#define DEDUP_BASE_ARTIFACTS_MAX 32
#define DEDUP_BASE_TAGS_MAX 512 /* tags that are listed */

struct dedup_base;
struct sign_terms;

/*
 * Read the block maps of the artifacts in the repository of `store` (borrowed). An artifact
 * that is damaged or of an unknown format is passed over; a store that cannot be read is an
 * error.  The same artifacts and signatures give the same answers.
 *
 * Anybody who may push to the repository can store a wrong map.  Maps of artifacts that the key
 * of `own` signed for its repository are trusted; a block that only other maps have is read and
 * checked when the index is asked for it, and counts as missing if its bytes are wrong.  `own`
 * NULL: every block is read.
 */
int dedup_base_load(struct oci_store *store, const struct sign_terms *own,
		    struct dedup_base **ret, struct error *err) MUST_CHECK;
void dedup_base_free(struct dedup_base *base);
DEFINE_AUTO(dedup_base)

/* For struct packer_config; borrowed. */
struct dedup_index *dedup_base_index(struct dedup_base *base);

#endif
