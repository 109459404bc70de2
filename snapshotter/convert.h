// SPDX-License-Identifier: Apache-2.0
/*
 * Operations on images in stores: those of `bootseer image` that need no node.  A client header
 * of this folder, used by cli.
 */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_H

#include "objects/oci.h"
#include "snapshotter/trust.h"

enum convert_form {
	/* F2: the image stays unchanged, the artifact lies beside it */
	CONVERT_FORM_REFERRER,
	CONVERT_FORM_FLAT, /* F1: one merged layer, artifact named on it */
	/* as F2, but the blocks stay in the image's layers */
	CONVERT_FORM_INDEX,
};

/* Called with the current step of a conversion, for a progress line; by one thread. */
struct convert_progress {
	void (*step)(struct convert_progress *p, const char *what,
		     uint64_t done, uint64_t total); /* bytes of input */
};

/* How to sign artifacts. */
struct sign_terms {
	const struct sign_key *key;
	/* pattern of the repositories that the signature is for */
	const char *repository;
	/* how long the signature is valid; 0: for ever */
	int64_t valid_s;
	/* Called before each signature is stored; NULL: nothing.  On failure nothing
	 * is signed. */
	int (*before)(void *arg, struct error *err);
	void *arg;
};

struct convert_options {
	struct oci_config src_config, dst_config;
	const char *platform; /* "os/arch[/variant]"; NULL: this machine's;
	                       * "all": every one of an index */
	enum convert_form form;
	/* threads that compress, and layers that are read at once; 1..64 */
	unsigned int jobs;
	bool force; /* convert although the image has an artifact */
	/* For the form index: store the artifact and its blobs only, neither the layers nor the
	 * image. */
	bool alone;
	/* Folder of earlier readings of the layers, for the form index: struct plan_config.
	 * NULL: none. */
	const char *readings;
	/* remove replaced artifacts: nodes that use them may miss their blocks */
	bool prune;
	/* level of zstd, 1..19; 0: 5.  Blocks that are stored already keep their level */
	int level;
	const char *temp_dir;              /* NULL: $TMPDIR or /var/tmp */
	struct convert_progress *progress; /* may be NULL */
	/* Sign the artifacts; NULL: no.  An earlier artifact without a signature of the key is
	 * compared with the layers first, since anybody may have made it. */
	const struct sign_terms *sign;
};

struct convert_result {
	struct digest artifact;
	uint64_t n_inodes;
	uint64_t input_bytes;  /* layers, unpacked */
	uint64_t device_bytes; /* virtual data device */
	uint64_t blocks;       /* entries of the block map */
	uint64_t new_blocks;   /* stored by this conversion */
	uint64_t new_bytes;    /* bytes of packs written */
	/* stored bytes of blocks that were there already */
	uint64_t old_bytes;
	uint64_t meta_bytes; /* metadata and map, as stored */
	/* for a failure: the image is wrong, so the conversion fails wherever it is tried */
	bool is_at_fault;
	/* an artifact existed already, and nothing was done ... */
	bool existed;
	bool compared; /* ... but to compare it with the layers */
};

/* Check options that image_convert() would refuse for any image: -EINVAL. Only chunking, form
 * and platform are checked. */
int image_convert_check(const struct oci_ref *dst,
			const struct convert_options *opt,
			struct error *err) MUST_CHECK;

int image_convert(const struct oci_ref *src, const struct oci_ref *dst,
		  const struct convert_options *opt, struct convert_result *ret,
		  struct error *err) MUST_CHECK;

/* Describe the image's artifact as a JSON text, which the caller owns. `artifact`: the wanted
 * one; NULL: the one that nodes without keys would take. */
int image_inspect(const struct oci_ref *ref, const struct oci_config *cfg,
		  const char *platform, const struct digest *artifact,
		  char **ret, struct error *err) MUST_CHECK;

/* Receives the differences between an artifact and the layers of its image. */
struct compare_report {
	/* Called for each difference; may be NULL.  `path` is printable. */
	void (*differs)(struct compare_report *r, const char *path,
			const char *what);
	uint64_t n; /* number of differences */
};

struct check_options {
	struct oci_config config;
	const char *platform;
	/* The artifact to check; NULL: the one that nodes without keys would take. */
	const struct digest *artifact;
	/* Files for the metadata image and the (sparse) data device, or NULL: an EROFS mount of
	 * the first needs the second as device=. */
	const char *metadata_to, *data_to;
	const char *temp_dir; /* NULL: $TMPDIR or /var/tmp */
	struct convert_progress *progress;
	/* Also compare the artifact with the image's own layers: every path, attribute and
	 * byte.  Differences do not make the call fail.  NULL: do not. */
	struct compare_report *against_layers;
};

struct check_result {
	size_t n_others; /* further artifacts of the image */
	/* the image's artifacts are listed by a fallback tag, being untagged themselves */
	bool is_by_tag;
};

/* Read and check everything: digests, map, metadata, every block, and that every byte of every
 * file is in a block. */
int image_check(const struct oci_ref *ref, const struct check_options *opt,
		struct check_result *ret, struct error *err) MUST_CHECK;

struct sign_options {
	/* its against_layers receives differences */
	struct check_options check;
	struct sign_terms terms;
	enum trust_claim claim; /* "verified": it is always compared first */
	/* Signatures by these keys count like those by the key of the terms; NULL: only the
	 * latter count. */
	const struct trust_keys *trusted;
};

struct sign_result {
	struct digest artifact; /* the signed artifact */
	/* it was compared with the layers before it was signed */
	bool compared;
};

/*
 * Sign an artifact of the image.  Anybody who may push can attach more artifacts, so the choice
 * is: the named one; else the one that a node with the signer's key and the trusted keys would
 * take; else, if none is signed by these keys, the only artifact, if it has the same content as
 * the layers.
 *     -EBADMSG   it differs from the layers, and was not signed
 *     -ENOTUNIQ  no such key signed any of several
 */
int image_sign(const struct oci_ref *ref, const struct sign_options *opt,
	       struct sign_result *ret, struct error *err) MUST_CHECK;

/* Tags of a repository or layout with their artifacts, JSON text. */
int image_list(const struct oci_ref *ref, const struct oci_config *cfg,
	       char **ret, struct error *err) MUST_CHECK;

/* Remove the artifact of an image, and its signatures (the image itself
 * stays). */
int image_remove(const struct oci_ref *ref, const struct oci_config *cfg,
		 const char *platform, struct error *err) MUST_CHECK;

#endif
