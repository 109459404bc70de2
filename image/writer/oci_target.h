// SPDX-License-Identifier: Apache-2.0
/* Stores the blobs of a tree in an OCI registry or layout. */
#ifndef BOOTSEER_IMAGE_WRITER_OCI_TARGET_H
#define BOOTSEER_IMAGE_WRITER_OCI_TARGET_H

#include "image/writer/upload.h"

struct oci_store;

struct oci_target {
	struct upload_target target;
	struct oci_store *store; /* borrowed */
};
void oci_target_init(struct oci_target *t, struct oci_store *store);

#endif
