// SPDX-License-Identifier: Apache-2.0
/* Image indexes: which manifests one lists. */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_INDEX_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_INDEX_H

#include "objects/oci.h"

#define INDEX_ENTRIES_MAX 1024

struct index_entry {
	struct digest digest;
	char platform[64]; /* "linux/arm64/v8"; "" when it names none */
	bool is_index;     /* as its media type says */
};

/* The image manifests that an index lists (what has an artifactType, or the
 * platform "unknown", is none); the array is the caller's. */
int index_parse(const void *json, size_t len, struct index_entry **ret,
		size_t *ret_n, struct error *err) MUST_CHECK;

/* The same with what the indexes that it lists list, in their place.
 *   -ELOOP  more than OCI_INDEX_DEPTH_MAX indexes in each other
 *   -E2BIG  more than INDEX_ENTRIES_MAX in all */
int index_images(struct oci_store *store, const struct oci_manifest *index,
		 struct index_entry **ret, size_t *ret_n,
		 struct error *err) MUST_CHECK;

/* Copy the other manifests that `index` lists (attestations and the like), with
 * their blobs; the index itself is left to the caller. */
int index_copy_others(struct oci_store *src, struct oci_store *dst,
		      const struct oci_manifest *index, const char *temp_dir,
		      struct error *err) MUST_CHECK;

#endif
