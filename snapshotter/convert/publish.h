// SPDX-License-Identifier: Apache-2.0
/* From what a conversion made to an artifact in a store. */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_PUBLISH_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_PUBLISH_H

#include "image/artifact/artifact.h"

/* The artifact to publish. All is borrowed. */
struct publish {
	struct oci_store *store; /* has the artifact's blobs */
	struct artifact *artifact;
	uint64_t image_manifest_size; /* 0: no subject */
	const char *image_media_type;
	/* Artifacts that the image has, and the one of them that is used now
	 * (NULL: none is): unless the new one is just that, it replaces them. */
	const struct digest *others;
	size_t n_others;
	const struct digest *used;
	uint64_t manifest_size; /* publish_manifest() sets it */
};

/* Put config and manifest: from here on the artifact is found.  `tag` NULL: by
 * digest and subject only.  Sets artifact->digest. */
int publish_manifest(struct publish *p, const char *tag,
		     struct error *err) MUST_CHECK;

#endif
