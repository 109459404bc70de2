// SPDX-License-Identifier: Apache-2.0
/* From what a conversion made to an artifact in a store. */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_PUBLISH_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_PUBLISH_H

#include "snapshotter/artifact.h"
#include "snapshotter/convert/spill.h"
#include "snapshotter/tree.h"

/* What to publish.  All is borrowed. */
struct publish {
	struct oci_store *store;
	struct tree *tree;
	struct spill *spill;  /* of its inline files, flushed; NULL: none */
	const char *temp_dir; /* as for temp_file() */
	const void *map;      /* encoded block map */
	size_t map_len;
	/* Filled by the caller: image, chain ids, chunking, sizes.  The rest is
	 * filled in here, and stays the caller's to artifact_fini(). */
	struct artifact *artifact;
	uint64_t image_manifest_size; /* 0: no subject */
	const char *image_media_type;
	/* Artifacts that the image has, and the one of them that is used now
	 * (NULL: none is): unless the new one is just that, it replaces them. */
	const struct digest *others;
	size_t n_others;
	const struct digest *used;
};

/* Put metadata image and block map as blobs. */
int publish_blobs(struct publish *p, struct error *err) MUST_CHECK;

/* Put config and manifest: from here on the artifact is found.  `tag` NULL: by
 * digest and subject only.  Sets artifact->digest. */
int publish_manifest(struct publish *p, const char *tag,
		     struct error *err) MUST_CHECK;

#endif
