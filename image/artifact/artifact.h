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

/* On an artifact: digests of those that it replaces, spaces between. */
#define ARTIFACT_REPLACES "dev.bootseer.replaces"

#define ARTIFACT_FORMAT 1
#define ARTIFACT_FORMAT_INDEX 2      /* its blocks lie in the image's layers */
#define ARTIFACT_META_MAX (2u << 30) /* bytes, unpacked */
#define ARTIFACTS_MAX 32             /* looked at of one image */
#define ARTIFACT_CHAIN_IDS_MAX 1024  /* layers of its image */
#define ARTIFACT_CONFIG_MAX (1u << 20) /* bytes */

/* The parsed artifact; also what its JSON config blob says. */
struct artifact {
	struct digest digest; /* of the artifact's manifest: the image's id */
	struct digest image;  /* manifest of the ordinary image it belongs to */
	unsigned int format;  /* ARTIFACT_FORMAT, or .._INDEX */
	char chunking[32];    /* name of the parameter set, "c1" */
	struct digest *chain_ids; /* of the image's layers, bottom first */
	size_t n_chain_ids;
	struct oci_descriptor meta, map;    /* zstd blobs */
	struct parts meta_parts, map_parts; /* of the zstd blobs; may be none */
	struct digest meta_raw, map_raw;    /* unpacked content */
	uint64_t meta_size, map_size;       /* bytes unpacked */
	/* In the block map's order; of an index the layers, as the image names
	 * them, and last the windows if there are any. */
	struct oci_descriptor *packs;
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
	/* Evidence by which an artifact_judge accepted it; opaque here. */
	struct buf evidence;
};

void artifact_fini(struct artifact *a);

/* Build the config blob, and the manifest from `a` (digest not used) and that. */
int artifact_format_config(const struct artifact *a, struct buf *ret,
			   struct error *err) MUST_CHECK;
int artifact_format_manifest(const struct artifact *a, const struct buf *config,
			     uint64_t image_manifest_size,
			     const char *image_media_type, struct buf *ret,
			     struct error *err) MUST_CHECK;

/* Bytes of disk that a node needs to keep it; pure. */
uint64_t artifact_disk_bytes(const struct artifact *a);

/* May what it unpacks to be so large?  -EINVAL.  Pure. */
int artifact_check_sizes(const struct artifact *a,
			 struct error *err) MUST_CHECK;

/* Parse and cross-check the two, sizes too; pure. */
int artifact_parse(const void *manifest, size_t manifest_len,
		   const void *config, size_t config_len, struct artifact *ret,
		   struct error *err) MUST_CHECK;

/*
 * Decides whether an artifact may be used, whoever put it into the repository.
 * Asked by digests, so that the answer can come while the artifact itself is
 * fetched.
 */
struct artifact_judge {
	/* May `artifact` be used as that of the image `subject` (zero: of a flat
	 * one)?  0, or -errno and why not; `evidence` may be filled with what it
	 * was accepted for.  Blocks; for one artifact at a time, on any thread. */
	int (*accept)(struct artifact_judge *j, struct oci_store *store,
		      const struct digest *artifact,
		      const struct digest *subject, struct buf *evidence,
		      struct error *err);
};

/* Get and parse the artifact of `image` (its manifest digest) from `store`: the
 * annotated one of a flat image, else of its referrers one that no other
 * replaces.  What `judge` does not accept is passed over, as if it were not
 * there: it replaces nothing either.  NULL: everything is accepted.  -ENOENT when
 * the image has none; the judge's code and reason when it has none that is
 * accepted. */
int artifact_find(struct oci_store *store, const struct digest *image,
		  struct artifact *ret, struct error *err) MUST_CHECK;
/* Artifacts of one image that can be used, the last listed first. */
struct artifact_usable {
	struct digest v[ARTIFACTS_MAX];
	size_t n;
	bool is_by_tag; /* listed, as in struct oci_referrers */
};
/* The same for a person who has to choose: with `named` that artifact, whatever
 * others there are (-EBADMSG when it is not the image's); without, `all` gets those
 * among which the search chose, which are those that `judge` accepted.  `named`,
 * `judge` and `all` (else zero at first) may be NULL. */
int artifact_find_among(struct oci_store *store, const struct digest *image,
			const struct digest *named,
			struct artifact_judge *judge,
			struct artifact_usable *all, struct artifact *ret,
			struct error *err) MUST_CHECK;
/* The same when the image's manifest is known already; `early` may be NULL. */
struct artifact_early;
int artifact_find_of(struct oci_store *store, const struct oci_manifest *image,
		     struct artifact_judge *judge, struct artifact_early *early,
		     struct artifact *ret, struct error *err) MUST_CHECK;

/* Is an artifact that came otherwise, with the image's config, of this image, and of its
 * layers?  -EBADMSG.  Pure. */
int artifact_check_image(const struct artifact *a, const struct digest *image,
			 struct error *err) MUST_CHECK;

/*
 * Ask for the list of what refers to `image` on a thread of its own, for whoever
 * knows the image's digest and still reads its manifest; `is_guess` unless it is known
 * that the registry has the image.  NULL: not begun, which
 * costs artifact_find_of() a round trip and nothing else.  Outlived by the store.
 */
struct artifact_early *artifact_early_begin(struct oci_store *store,
					    const struct digest *image,
					    bool is_guess);
bool artifact_early_is_of(const struct artifact_early *e,
			  const struct digest *image);
/* Wait for the list and take it, once; as oci_list_noted(). */
int artifact_early_take(struct artifact_early *e, struct oci_referrers *ret,
			struct error *err) MUST_CHECK;
/* Waits for the thread. */
void artifact_early_free(struct artifact_early *e);
int artifact_get(struct oci_store *store, const struct digest *artifact,
		 struct artifact *ret, struct error *err) MUST_CHECK;

/* Unpack a zstd blob into `fd`, which stays the caller's: at most, and at the end
 * exactly, `size` bytes.  -EBADMSG. */
struct artifact_unpack;
int artifact_unpack_new(int fd, uint64_t size, struct artifact_unpack **ret,
			struct error *err) MUST_CHECK;
int artifact_unpack_put(struct artifact_unpack *u, const void *data, size_t len,
			struct error *err) MUST_CHECK;
int artifact_unpack_end(const struct artifact_unpack *u,
			struct error *err) MUST_CHECK;
void artifact_unpack_free(struct artifact_unpack *u);
DEFINE_AUTO(artifact_unpack)

/* Which of an artifact's two files. */
enum artifact_file { ARTIFACT_META, ARTIFACT_MAP };

/* A job of another process: its parser's. */
struct artifact_job {
	int in;        /* of unpacking: takes what is packed; else -1 */
	int reply;     /* says how it went */
	int pid;       /* of the process */
	int pidfd;     /* of the same, whatever becomes of its number */
	bool is_stuck; /* it takes nothing any more: it is killed at the end */
};

/* Unpacks and checks files of artifacts in another process.  Any thread. */
struct artifact_parser {
	/* Begin to write into `fd`, from its start, at most `size` bytes. */
	int (*unpack)(struct artifact_parser *p, int fd, uint64_t size,
		      struct artifact_job *ret, struct error *err);
	/* The next bytes of the blob that is unpacked. */
	int (*put)(struct artifact_parser *p, struct artifact_job *job,
		   const void *data, size_t len, struct error *err);
	/* Begin to check the whole of such a file, open for reading. */
	int (*check)(struct artifact_parser *p, enum artifact_file file, int fd,
		     uint64_t size, struct artifact_job *ret,
		     struct error *err);
	/* All was put, or there will be no more: wait for the end.  Releases
	 * `job`.  When it returns 0 the process is gone, so nobody else writes
	 * to the file; of unpacking that says that it got `size` bytes, not that
	 * they are right. */
	int (*end)(struct artifact_parser *p, struct artifact_job *job,
		   struct error *err);
};

/* Where the two blobs are read, whole and once; NULL: from the store. */
struct artifact_sources {
	struct source *meta, *map;      /* borrowed */
	struct artifact_parser *parser; /* NULL: this process unpacks */
};

/* Fetch and unpack the metadata image and the block map into new files at these
 * paths (durable when this returns), and check their digests; with a parser, all
 * of what is in them, too: both, or none.  `from` may be NULL. */
int artifact_fetch(struct oci_store *store, const struct artifact *a,
		   const struct artifact_sources *from, const char *meta_path,
		   const char *map_path, struct error *err) MUST_CHECK;

#endif
