// SPDX-License-Identifier: Apache-2.0
/* Stores the artifact that a conversion has made. */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_PUBLISH_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_PUBLISH_H

#include "image/artifact/artifact.h"

/* The artifact to publish. All is borrowed. */
struct publish {
	/* the store, which has the artifact's blobs already */
	struct oci_store *store;
	struct artifact *artifact;
	uint64_t image_manifest_size; /* 0: no subject */
	const char *image_media_type;
	/* Artifacts that the image has already, and the one that nodes use now (NULL: none).
	 * The new artifact replaces them, unless it is the used one itself. */
	const struct digest *others;
	size_t n_others;
	const struct digest *used;
	uint64_t manifest_size; /* publish_manifest() sets it */
};

/* Store config and manifest; then nodes can find the artifact.  `tag` NULL: by digest and
 * subject only.  Sets artifact->digest. */
int publish_manifest(struct publish *p, const char *tag,
		     struct error *err) MUST_CHECK;

#endif
