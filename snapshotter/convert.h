// SPDX-License-Identifier: Apache-2.0
/*
 * Operations on images in stores: what `bootseer image` does without a node.
 * Public for cli (a client header of this folder).
 */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_H

#include "objects/oci.h"
#include "snapshotter/trust.h"

enum convert_form {
	CONVERT_FORM_REFERRER, /* F2: the image untouched, artifact beside it */
	CONVERT_FORM_FLAT,     /* F1: one merged layer, artifact named on it */
	CONVERT_FORM_INDEX,    /* as F2, and the blocks stay in the layers */
};

/* The step that a conversion is at, for a progress line; called from one
 * thread. */
struct convert_progress {
	void (*step)(struct convert_progress *p, const char *what,
		     uint64_t done, uint64_t total); /* bytes of input */
};

/* How to sign what is answered for. */
struct sign_terms {
	const struct sign_key *key;
	const char *repository; /* pattern */
	int64_t valid_s;        /* how long it is good; 0: without end */
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
	unsigned int jobs; /* threads that compress, layers that are read at
	                    * once; 1..64 */
	bool force;        /* convert although the image has an artifact */
	/* With form index: store the artifact and what it needs beside the
	 * layers, neither these nor the image. */
	bool alone;
	/* ... and with what readings of layers found already: struct plan_config.  NULL: none. */
	const char *readings;
	bool prune; /* remove those that are replaced: nodes that use them
	                    * may miss their blocks */
	int level;  /* of zstd, 1..19; 0: 5.  Blocks that are stored
	            * already stay as they are */
	const char *temp_dir;              /* NULL: $TMPDIR or /var/tmp */
	struct convert_progress *progress; /* may be NULL */
	/* Sign the artifacts; NULL: no.  One that was there before, and has no
	 * signature of the key, is compared with the layers first: anybody may
	 * have made it. */
	const struct sign_terms *sign;
};

struct convert_result {
	struct digest artifact;
	uint64_t n_inodes;
	uint64_t input_bytes;  /* layers, unpacked */
	uint64_t device_bytes; /* virtual data device */
	uint64_t blocks;       /* entries of the block map */
	uint64_t new_blocks;   /* stored by this conversion */
	uint64_t new_bytes;    /* of packs written */
	uint64_t old_bytes;    /* of blocks already there, stored size */
	uint64_t meta_bytes;   /* metadata and map, as stored */
	bool is_at_fault; /* the image, for a failure: it fails wherever it is tried */
	bool existed;  /* nothing was done */
	bool compared; /* ... but to compare it with the layers */
};

/* Refuse options that image_convert() refuses whatever SRC is: -EINVAL. Only
 * chunking, form and platform are looked at. */
int image_convert_check(const struct oci_ref *dst,
			const struct convert_options *opt,
			struct error *err) MUST_CHECK;

int image_convert(const struct oci_ref *src, const struct oci_ref *dst,
		  const struct convert_options *opt, struct convert_result *ret,
		  struct error *err) MUST_CHECK;

/* A description of the image's artifact as a JSON text, caller owns. `artifact`:
 * the one that is meant; NULL: the one that nodes without keys would take. */
int image_inspect(const struct oci_ref *ref, const struct oci_config *cfg,
		  const char *platform, const struct digest *artifact,
		  char **ret, struct error *err) MUST_CHECK;

/* Takes what differs between an artifact and the layers of its image. */
struct compare_report {
	/* May be NULL.  `path` is fit for people. */
	void (*differs)(struct compare_report *r, const char *path,
			const char *what);
	uint64_t n; /* differences */
};

struct check_options {
	struct oci_config config;
	const char *platform;
	/* Which artifact of the image; NULL: the one that nodes without keys would
	 * take. */
	const struct digest *artifact;
	/* Where to leave the metadata image and the data device (sparse), or
	 * NULL: an EROFS mount of the first needs device=, the second. */
	const char *metadata_to, *data_to;
	const char *temp_dir; /* NULL: $TMPDIR or /var/tmp */
	struct convert_progress *progress;
	/* Compare it with the image's own layers, too: every path, attribute
	 * and byte.  Differences are no failure of the call.  NULL: no. */
	struct compare_report *against_layers;
};

struct check_result {
	size_t n_others; /* artifacts that the image has besides */
	bool is_by_tag;  /* listed by a tag, being untagged themselves */
};

/* Read everything and check it: digests, map, metadata, every block, and that
 * every file's bytes are there. */
int image_check(const struct oci_ref *ref, const struct check_options *opt,
		struct check_result *ret, struct error *err) MUST_CHECK;

struct sign_options {
	struct check_options check; /* against_layers takes what differs */
	struct sign_terms terms;
	enum trust_claim claim; /* "verified": always compared first */
	/* Signatures by these keys count as those by the key of the terms;
	 * NULL: none do. */
	const struct trust_keys *trusted;
};

struct sign_result {
	struct digest artifact; /* that was signed */
	bool compared;          /* ... after it was compared with the layers */
};

/*
 * Sign an artifact of the image.  Whoever may push can attach more of them, so it is
 * the one that is named; else the one that a node with the signer's key and the
 * trusted ones would take; else, when no such key signed any, the only one, if it
 * is what the layers hold.
 *   -EBADMSG   it differs from the layers, and was not signed
 *   -ENOTUNIQ  no such key signed any of several
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
