// SPDX-License-Identifier: Apache-2.0
/* The kinds of image stores; private to this folder. */
#ifndef BOOTSEER_OBJECTS_OCI_STORE_H
#define BOOTSEER_OBJECTS_OCI_STORE_H

#include "objects/oci.h"

/* First member of every store. */
struct oci_store {
	const struct oci_store_ops *ops;
};

/* Open a store of one kind; the contract of oci_store_open(). */
typedef int oci_store_new_fn(const struct oci_ref *ref,
			     const struct oci_config *cfg, bool create,
			     struct oci_store **ret, struct error *err);

oci_store_new_fn oci_layout_new, oci_registry_new, oci_archive_new;

#endif
