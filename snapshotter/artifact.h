// SPDX-License-Identifier: Apache-2.0
/*
 * The OCI manifest that carries an image's blocks: docs/formats/artifact.md.
 * Private to this folder.
 */
#ifndef BOOTSEER_SNAPSHOTTER_ARTIFACT_H
#define BOOTSEER_SNAPSHOTTER_ARTIFACT_H

#include "blockstore/oci.h"
#include "snapshotter/parts.h"

#define ARTIFACT_TYPE "application/vnd.bootseer.image.v1"
#define ARTIFACT_CONFIG_TYPE "application/vnd.bootseer.image.config.v1+json"
#define ARTIFACT_META_TYPE "application/vnd.bootseer.meta.v1.erofs+zstd"
#define ARTIFACT_MAP_TYPE "application/vnd.bootseer.blockmap.v1+zstd"
#define ARTIFACT_PACK_TYPE "application/vnd.bootseer.pack.v1"
/* On the one layer of a flat image (form F1): digest of its artifact. */
#define ARTIFACT_ANNOTATION "dev.bootseer.artifact"

/* On an artifact: digests of those that it replaces, spaces between. */
#define ARTIFACT_REPLACES "dev.bootseer.replaces"

#define ARTIFACT_META_MAX (2u << 30) /* bytes, unpacked */
#define ARTIFACTS_MAX 32             /* looked at of one image */

/* The parsed artifact; also what its JSON config blob says. */
struct artifact {
	struct digest digest; /* of the artifact's manifest: the image's id */
	struct digest image;  /* manifest of the ordinary image it belongs to */
	unsigned int format;  /* 1 */
	char chunking[32];    /* name of the parameter set, "c1" */
	struct digest *chain_ids; /* of the image's layers, bottom first */
	size_t n_chain_ids;
	struct oci_descriptor meta, map;    /* zstd blobs */
	struct parts meta_parts, map_parts; /* of the zstd blobs; may be none */
	struct digest meta_raw, map_raw;    /* unpacked content */
	uint64_t meta_size, map_size;       /* bytes unpacked */
	struct oci_descriptor *packs;       /* in the block map's order */
	size_t n_packs;
	uint64_t device_size; /* bytes of the virtual data device */
	uint64_t image_size;  /* bytes of all files */
	uint64_t n_inodes;
	char *replaces; /* as the annotation, or NULL */
	/* The two texts as stored, so that a node can keep them; set by
	 * artifact_parse(), hence by artifact_find() and artifact_get(). */
	struct buf manifest_json, config_json;
	/* Config of the ordinary image; set by artifact_find(), which reads
	 * it. */
	struct buf image_config;
};

void artifact_fini(struct artifact *a);

/* Build the config blob and the manifest from `a` (digest not used). */
int artifact_format_config(const struct artifact *a, struct buf *ret,
			   struct error *err) MUST_CHECK;
int artifact_format_manifest(const struct artifact *a,
			     const struct oci_descriptor *config,
			     uint64_t image_manifest_size,
			     const char *image_media_type, struct buf *ret,
			     struct error *err) MUST_CHECK;

/* Parse and cross-check the two; pure. */
int artifact_parse(const void *manifest, size_t manifest_len,
		   const void *config, size_t config_len, struct artifact *ret,
		   struct error *err) MUST_CHECK;

/* Get and parse the artifact of `image` (its manifest digest) from `store`: the
 * annotated one of a flat image, else of its referrers one that no other
 * replaces.  -ENOENT when the image has none. */
int artifact_find(struct oci_store *store, const struct digest *image,
		  struct artifact *ret, struct error *err) MUST_CHECK;
/* The same when the image's manifest is known already. */
int artifact_find_of(struct oci_store *store, const struct oci_manifest *image,
		     struct artifact *ret, struct error *err) MUST_CHECK;
int artifact_get(struct oci_store *store, const struct digest *artifact,
		 struct artifact *ret, struct error *err) MUST_CHECK;

/* Where the two blobs are read, whole and once; NULL: from the store. */
struct artifact_sources {
	struct source *meta, *map; /* borrowed */
};

/* Fetch, unpack and check the metadata image and the block map into new
 * files at these paths (durable when this returns): both, or none.  `from`
 * may be NULL. */
int artifact_fetch(struct oci_store *store, const struct artifact *a,
		   const struct artifact_sources *from, const char *meta_path,
		   const char *map_path, struct error *err) MUST_CHECK;

#endif
