// SPDX-License-Identifier: Apache-2.0
/* Config and manifest of a flat image. */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_FLAT_IMAGE_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_FLAT_IMAGE_H

#include "objects/oci.h"

struct flat_image {
	struct oci_store *store;
	const struct buf *config;      /* config of the original image */
	const struct digest *artifact; /* named in an annotation of the layer */
	const struct digest *diff_id, *layer;
	uint64_t layer_size;
};

/* Store the config and make the manifest, which is not stored. */
int flat_image_make(const struct flat_image *f, struct oci_manifest *ret,
		    struct error *err) MUST_CHECK;

#endif
