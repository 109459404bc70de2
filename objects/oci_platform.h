/* SPDX-License-Identifier: Apache-2.0 */
/* Platforms of images, as indexes and configs have them. */
#ifndef BOOTSEER_OBJECTS_OCI_PLATFORM_H
#define BOOTSEER_OBJECTS_OCI_PLATFORM_H

#include <jansson.h>
#include <stdbool.h>

/* Is it ("platform" of an index's entry, or a config) that of an image whose layers are
 * EROFS images, which containerd 2 makes beside the ordinary one? */
bool oci_platform_has_erofs(const json_t *platform);

#endif
