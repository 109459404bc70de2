// SPDX-License-Identifier: Apache-2.0
/* Reads containerd's content store, which has all that containerd pulled, directly on the disk. */
#ifndef BOOTSEER_NODE_CONTENT_H
#define BOOTSEER_NODE_CONTENT_H

#include <stdbool.h>

#include "objects/oci.h"

/* The path of a blob below containerd's root folder; the caller frees it.  NULL when memory is
 * short. */
char *content_path(const char *containerd_root, const struct digest *d);

/*
 * Read the image's manifest from containerd's root folder, checked by its digest.  False: the
 * blob is missing or is no image manifest, so the registry has to be asked.
 */
bool content_get_manifest(const char *containerd_root, const struct digest *d,
			  struct oci_manifest *ret);

#endif
