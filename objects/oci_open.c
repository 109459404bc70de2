// SPDX-License-Identifier: Apache-2.0
/* Every kind of store of images is found here. */
#include "objects/oci_store.h"

static oci_store_new_fn *const kinds[] = {
	[OCI_TRANSPORT_REGISTRY] = oci_registry_new,
	[OCI_TRANSPORT_LAYOUT] = oci_layout_new,
	[OCI_TRANSPORT_ARCHIVE] = oci_archive_new,
};

int oci_store_open(const struct oci_ref *ref, const struct oci_config *cfg,
		   bool create, struct oci_store **ret, struct error *err)
{
	return kinds[ref->transport](ref, cfg, create, ret, err);
}
