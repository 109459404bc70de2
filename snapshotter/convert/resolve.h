// SPDX-License-Identifier: Apache-2.0
/* From a reference to the image, and its artifact. */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_RESOLVE_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_RESOLVE_H

#include "snapshotter/artifact.h"

/* The name that oci_get_manifest() takes: tag, digest (written to `text`), or
 * NULL. */
const char *resolve_name(const struct oci_ref *r, char text[DIGEST_STR_MAX]);

/* Manifest digest of the image that `ref` names, through an index by
 * `platform` (NULL: this machine's). */
int resolve_image(struct oci_store *s, const struct oci_ref *ref,
		  const char *platform, struct digest *ret,
		  struct error *err) MUST_CHECK;

#endif
