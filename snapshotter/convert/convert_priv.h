// SPDX-License-Identifier: Apache-2.0
/* One run of image_convert(). */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_PRIV_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_PRIV_H

#include "snapshotter/convert.h"

struct convert_run {
	const struct convert_options *opt;
	struct oci_store *src, *dst;
	bool spool;     /* keep layers on disk between the passes */
	bool by_digest; /* the image is put by its digest: no tag comes */
	struct convert_result *result; /* sums over platforms */
};

#endif
