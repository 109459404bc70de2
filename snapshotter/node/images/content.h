// SPDX-License-Identifier: Apache-2.0
/* containerd's content store, with all that it has pulled, read where it lies on the disk. */
#ifndef BOOTSEER_NODE_CONTENT_H
#define BOOTSEER_NODE_CONTENT_H

#include <stdbool.h>

#include "objects/oci.h"

/* Where a blob lies below containerd's root folder; the caller frees it.  NULL when memory is
 * short. */
char *content_path(const char *containerd_root, const struct digest *d);

/*
 * The image's manifest out of containerd's root folder, checked by its digest.  False: it
 * is not there, or is no image's manifest, and the registry has to be asked.
 */
bool content_get_manifest(const char *containerd_root, const struct digest *d,
			  struct oci_manifest *ret);

#endif
