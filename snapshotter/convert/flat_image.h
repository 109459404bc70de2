// SPDX-License-Identifier: Apache-2.0
/* Config and manifest of a flat image. */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_FLAT_IMAGE_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_FLAT_IMAGE_H

#include "objects/oci.h"

struct flat_image {
	struct oci_store *store;
	const struct buf *config;      /* of the image it comes from */
	const struct digest *artifact; /* named on the layer */
	const struct digest *diff_id, *layer;
	uint64_t layer_size;
};

/* Store the config; the manifest is not stored. */
int flat_image_make(const struct flat_image *f, struct oci_manifest *ret,
		    struct error *err) MUST_CHECK;

#endif
