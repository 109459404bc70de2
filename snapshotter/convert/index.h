// SPDX-License-Identifier: Apache-2.0
/* Image indexes: reading which manifests an index lists. */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_INDEX_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_INDEX_H

#include "objects/oci.h"

#define INDEX_ENTRIES_MAX 1024

struct index_entry {
	struct digest digest;
	char platform[64]; /* "linux/arm64/v8"; "": the index names none */
	bool is_index;     /* its media type is that of an index */
};

/* Parse the image manifests of an index (entries with an artifactType or the platform "unknown"
 * are no images); the caller owns the array. */
int index_parse(const void *json, size_t len, struct index_entry **ret,
		size_t *ret_n, struct error *err) MUST_CHECK;

/* List the images of an index, replacing nested indexes by their images.
 *     -ELOOP  more than OCI_INDEX_DEPTH_MAX indexes in each other
 *     -E2BIG  more than INDEX_ENTRIES_MAX entries in all */
int index_images(struct oci_store *store, const struct oci_manifest *index,
		 struct index_entry **ret, size_t *ret_n,
		 struct error *err) MUST_CHECK;

/* Copy the manifests that `index` lists and that are no images (attestations and the like),
 * with their blobs; the caller stores the index itself. */
int index_copy_others(struct oci_store *src, struct oci_store *dst,
		      const struct oci_manifest *index, const char *temp_dir,
		      struct error *err) MUST_CHECK;

#endif
