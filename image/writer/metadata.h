// SPDX-License-Identifier: Apache-2.0
/* Stores the blobs of a tree that are not packs: block map and metadata image. */
#ifndef BOOTSEER_IMAGE_WRITER_METADATA_H
#define BOOTSEER_IMAGE_WRITER_METADATA_H

#include "image/artifact/artifact.h"

struct spill;
struct tree;
struct upload_target;

/* All pointers are borrowed. */
struct metadata {
	struct upload_target *target;
	struct tree *tree;
	/* contents of the tree's inline files, flushed; NULL: none */
	struct spill *spill;
	const char *temp_dir; /* as for temp_file() */
	int level;            /* of zstd; 0: zstd_blob_new()'s */
	const void *map;      /* encoded block map */
	size_t map_len;
	uint64_t device_size;
};

/* Store both blobs. Sets in `a` the members of meta and map, packs and device_size. */
int metadata_store(const struct metadata *m, struct artifact *a,
		   struct error *err) MUST_CHECK;

#endif
