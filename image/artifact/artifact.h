// SPDX-License-Identifier: Apache-2.0
/*
 * The OCI manifest that carries an image's blocks: docs/formats/artifact.md.
 */
#ifndef BOOTSEER_IMAGE_ARTIFACT_ARTIFACT_H
#define BOOTSEER_IMAGE_ARTIFACT_ARTIFACT_H

#include <stdbool.h>

#include "image/artifact/parts.h"
#include "objects/oci.h"

#define ARTIFACT_TYPE "application/vnd.bootseer.image.v1"
#define ARTIFACT_CONFIG_TYPE "application/vnd.bootseer.image.config.v1+json"
#define ARTIFACT_META_TYPE "application/vnd.bootseer.meta.v1.erofs+zstd"
#define ARTIFACT_MAP_TYPE "application/vnd.bootseer.blockmap.v1+zstd"
#define ARTIFACT_PACK_TYPE "application/vnd.bootseer.pack.v1"
#define ARTIFACT_WINDOWS_TYPE "application/vnd.bootseer.windows.v1"
/* On the one layer of a flat image (form F1): digest of its artifact. */
#define ARTIFACT_ANNOTATION "dev.bootseer.artifact"

/* On an artifact: digests of the artifacts that it replaces, with spaces between. */
#define ARTIFACT_REPLACES "dev.bootseer.replaces"

#define ARTIFACT_FORMAT 1
#define ARTIFACT_FORMAT_INDEX 2      /* its blocks lie in the image's layers */
#define ARTIFACT_META_MAX (2u << 30) /* bytes, unpacked */
/* artifacts of one image that are considered */
#define ARTIFACTS_MAX 32
#define ARTIFACT_CHAIN_IDS_MAX 1024    /* layers of an artifact's image */
#define ARTIFACT_CONFIG_MAX (1u << 20) /* bytes */

/* The parsed artifact; also what its JSON config blob says. */
struct artifact {
	struct digest digest; /* of the artifact's manifest: the image's id */
	struct digest image;  /* manifest of the ordinary image it belongs to */
	unsigned int format;  /* ARTIFACT_FORMAT, or .._INDEX */
	char chunking[32];    /* name of the parameter set, "c1" */
	struct digest *chain_ids; /* of the image's layers, bottom first */
	size_t n_chain_ids;
	struct oci_descriptor meta, map; /* zstd blobs */
	/* parts of the zstd blobs; n is 0 when a blob has none */
	struct parts meta_parts, map_parts;
	struct digest meta_raw, map_raw; /* unpacked content */
	uint64_t meta_size, map_size;    /* bytes unpacked */
	/* In the block map's order. With ARTIFACT_FORMAT_INDEX: the image's layers in its
	 * order, and last the windows if there are any. */
	struct oci_descriptor *packs;
	size_t n_packs;
	uint64_t device_size; /* bytes of the virtual data device */
	uint64_t image_size;  /* bytes of all files */
	uint64_t n_inodes;
	char *replaces; /* value of ARTIFACT_REPLACES, or NULL */
	/* Manifest and config as stored, so that a node can keep them; set by
	 * artifact_parse(), hence by artifact_find() and artifact_get(). */
	struct buf manifest_json, config_json;
	/* Config of the ordinary image, which artifact_find() reads and stores here. */
	struct buf image_config;
	/* Proof on which an artifact_judge accepted the artifact; opaque here. */
	struct buf evidence;
};

void artifact_fini(struct artifact *a);

/* Build the config blob from `a`, and the manifest from `a` (its digest is not used) and the
 * config. */
int artifact_format_config(const struct artifact *a, struct buf *ret,
			   struct error *err) MUST_CHECK;
int artifact_format_manifest(const struct artifact *a, const struct buf *config,
			     uint64_t image_manifest_size,
			     const char *image_media_type, struct buf *ret,
			     struct error *err) MUST_CHECK;

/* Bytes of disk that a node needs to keep the artifact; pure. */
uint64_t artifact_disk_bytes(const struct artifact *a);

/* Check that the sizes the artifact unpacks to are allowed. -EINVAL. Pure. */
int artifact_check_sizes(const struct artifact *a,
			 struct error *err) MUST_CHECK;

/* Parse a manifest and its config, and check that they and their sizes agree; pure. */
int artifact_parse(const void *manifest, size_t manifest_len,
		   const void *config, size_t config_len, struct artifact *ret,
		   struct error *err) MUST_CHECK;

/*
 * Decides whether an artifact may be used, since anybody may push one into the repository. The
 * judge gets only digests, so that its answer can come while the artifact itself is fetched.
 */
struct artifact_judge {
	/* May `artifact` be used for the image `subject` (zero: for a flat image)? Returns
	 * 0, or -errno and the reason; may fill `evidence` with the proof for its answer.
	 * Blocks; called on any thread, for one artifact at a time. */
	int (*accept)(struct artifact_judge *j, struct oci_store *store,
		      const struct digest *artifact,
		      const struct digest *subject, struct buf *evidence,
		      struct error *err);
};

/* Get and parse the artifact of `image` (its manifest digest) from `store`: for a flat image
 * the artifact that its annotation names, else a referrer that no other referrer replaces. An
 * artifact that `judge` refuses is ignored, and so is its list of artifacts to replace. judge
 * NULL: accept all. -ENOENT when the image has no artifact; the judge's code and reason when
 * none is accepted. */
int artifact_find(struct oci_store *store, const struct digest *image,
		  struct artifact *ret, struct error *err) MUST_CHECK;
/* Artifacts of one image that can be used, in the reverse of the registry's order. */
struct artifact_usable {
	struct digest v[ARTIFACTS_MAX];
	size_t n;
	bool is_by_tag; /* listed, as in struct oci_referrers */
};
/* As artifact_find(), for a person who has to choose. With `named`, take that artifact
 * whatever others there are (-EBADMSG when it is not the image's). Without, `all` gets the
 * artifacts that the search chose from: those that `judge` accepted. `named`, `judge` and `all`
 * (else zeroed by the caller) may be NULL. */
int artifact_find_among(struct oci_store *store, const struct digest *image,
			const struct digest *named,
			struct artifact_judge *judge,
			struct artifact_usable *all, struct artifact *ret,
			struct error *err) MUST_CHECK;
/* As artifact_find(), with the image's manifest known already; `early` may be NULL. */
struct artifact_early;
int artifact_find_of(struct oci_store *store, const struct oci_manifest *image,
		     struct artifact_judge *judge, struct artifact_early *early,
		     struct artifact *ret, struct error *err) MUST_CHECK;

/* Does an artifact that was not found by artifact_find() belong to this image and its
 * layers? It must hold the image's config. -EBADMSG. Pure. */
int artifact_check_image(const struct artifact *a, const struct digest *image,
			 struct error *err) MUST_CHECK;

/*
 * Begin to fetch the list of referrers of `image` on a thread, while the caller still reads the
 * image's manifest. `is_guess` unless it is known that the registry has the image. Returns NULL
 * when the thread could not be started; artifact_find_of() then fetches the list itself, one
 * round trip later. The store must outlive the result.
 */
struct artifact_early *artifact_early_begin(struct oci_store *store,
					    const struct digest *image,
					    bool is_guess);
bool artifact_early_is_of(const struct artifact_early *e,
			  const struct digest *image);
/* Wait for the list and take it; only once. Results as of oci_list_noted(). */
int artifact_early_take(struct artifact_early *e, struct oci_referrers *ret,
			struct error *err) MUST_CHECK;
/* Waits for the thread. */
void artifact_early_free(struct artifact_early *e);
int artifact_get(struct oci_store *store, const struct digest *artifact,
		 struct artifact *ret, struct error *err) MUST_CHECK;

/* Unpack a zstd blob into `fd`, which stays the caller's. The content must be exactly `size`
 * bytes; more is never written. -EBADMSG. */
struct artifact_unpack;
int artifact_unpack_new(int fd, uint64_t size, struct artifact_unpack **ret,
			struct error *err) MUST_CHECK;
int artifact_unpack_put(struct artifact_unpack *u, const void *data, size_t len,
			struct error *err) MUST_CHECK;
int artifact_unpack_end(const struct artifact_unpack *u,
			struct error *err) MUST_CHECK;
void artifact_unpack_free(struct artifact_unpack *u);
DEFINE_AUTO(artifact_unpack)

/* The two files that an artifact unpacks to. */
enum artifact_file { ARTIFACT_META, ARTIFACT_MAP };

/* A job that runs in the process of an artifact_parser. */
struct artifact_job {
	/* takes the packed bytes of an unpacking job; -1: a check */
	int in;
	int reply; /* the process reports the result here */
	int pid;   /* of the process */
	/* of the same process: stays valid when the number is reused */
	int pidfd;
	bool is_stuck; /* takes no more bytes; it is killed at the end */
};

/* Unpacks and checks files of artifacts in another process.  Any thread. */
struct artifact_parser {
	/* Begin to unpack into `fd`, from its start; at most `size` bytes. */
	int (*unpack)(struct artifact_parser *p, int fd, uint64_t size,
		      struct artifact_job *ret, struct error *err);
	/* Pass on the next bytes of the packed blob. */
	int (*put)(struct artifact_parser *p, struct artifact_job *job,
		   const void *data, size_t len, struct error *err);
	/* Begin to check all of an unpacked file, open for reading. */
	int (*check)(struct artifact_parser *p, enum artifact_file file, int fd,
		     uint64_t size, struct artifact_job *ret,
		     struct error *err);
	/* Wait for the end of the job, after all bytes were put or when no more will come.
	 * Releases `job`. When it returns 0 the process is gone, so nothing else writes to the
	 * file; 0 for an unpacking means that `size` bytes came, not that they are right. */
	int (*end)(struct artifact_parser *p, struct artifact_job *job,
		   struct error *err);
};

/* Sources of the two blobs, each read whole and once; NULL: the store. */
struct artifact_sources {
	struct source *meta, *map;      /* borrowed */
	struct artifact_parser *parser; /* NULL: this process unpacks */
};

/* Fetch and unpack the metadata image and the block map into new files at these paths
 * (durable when this returns), and check their digests; with a parser, their whole contents
 * too. After a failure neither file is left. `from` may be NULL. */
int artifact_fetch(struct oci_store *store, const struct artifact *a,
		   const struct artifact_sources *from, const char *meta_path,
		   const char *map_path, struct error *err) MUST_CHECK;

#endif
