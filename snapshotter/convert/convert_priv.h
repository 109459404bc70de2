// SPDX-License-Identifier: Apache-2.0
/* Private parts of image_convert(), image_check() and image_sign(). */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_PRIV_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_PRIV_H

#include "image/artifact/artifact.h"
#include "snapshotter/convert.h"

struct convert_run {
	const struct convert_options *opt;
	struct oci_store *src, *dst;
	bool spool;     /* keep layers on disk between the passes */
	bool by_digest; /* the image is stored by its digest, without a tag */
	struct convert_result *result; /* sums over platforms */
};

/* The arguments of check_artifact(). */
struct check_target {
	struct oci_store *store;
	const struct artifact *artifact;
	/* For against_layers: the image, and the store with its layers. */
	const struct digest *image;
	struct oci_store *layers;
	/* `layers` is far away: keep the layers on disk between the passes */
	bool spool;
};
int check_artifact(const struct check_target *t,
		   const struct check_options *opt,
		   struct error *err) MUST_CHECK;

/* An image's store, opened by a reference, and one of its artifacts as a target of checks.
 * Always call check_close(). */
struct check_opened {
	struct oci_store *store;
	struct digest image;
	struct artifact artifact; /* set by check_find() */
	struct artifact_usable
		all; /* among which it chose; none were it named */
	struct check_target target;
};
int check_open(const struct oci_ref *ref, const struct check_options *opt,
	       struct check_opened *ret, struct error *err) MUST_CHECK;
/* Find the artifact that the options name, else the one that a node with this judge (may be
 * NULL) would take. */
int check_find(struct check_opened *o, const struct check_options *opt,
	       struct artifact_judge *judge, struct error *err) MUST_CHECK;
void check_close(struct check_opened *o);

/* An unpacked artifact: its metadata image, and a file with the content of its device. */
struct unpacked {
	const void *meta;
	size_t meta_len;
	int data_fd; /* -1: not unpacked yet */
};

/* Compares an artifact with the layers, as a part of check_artifact(); opening reads the
 * layers' headers.  Differences go to the options' report. */
struct against;
int against_open(const struct check_target *t, const struct check_options *opt,
		 struct against **ret, struct error *err) MUST_CHECK;
void against_free(struct against *a);
DEFINE_AUTO(against)
/* Compare sizes before a block is unpacked: do blocks of `n_covered` bytes fit the layers?  If
 * not, the other differences are reported too. */
int against_sizes(struct against *a, const struct unpacked *u,
		  uint64_t n_covered, bool *ret_differs,
		  struct error *err) MUST_CHECK;
int against_compare(struct against *a, const struct unpacked *u,
		    struct error *err) MUST_CHECK;

/* Remove an artifact's manifest and its signatures. */
int remove_artifact(struct oci_store *store, const struct digest *artifact,
		    struct error *err) MUST_CHECK;

/* Sign an artifact whose manifest has `size` bytes. */
int sign_artifact(struct oci_store *store, const struct artifact *a,
		  uint64_t size, const struct sign_terms *terms,
		  enum trust_claim claim, struct error *err) MUST_CHECK;

/* Make a list of keys with the key's public half alone. */
int sign_own_list(const struct sign_key *key, struct trust_keys **ret,
		  struct error *err) MUST_CHECK;
/* Make an example of a repository that the pattern matches. */
void sign_example(const char *pattern, char ret[TRUST_PATTERN_MAX + 2]);

/* Sign an earlier artifact, unless it has the same signature already, and only if it has the
 * same content as the layers.  `ret_compared`: it was compared. */
int sign_existing(const struct check_target *t, const struct check_options *opt,
		  const struct sign_terms *terms, bool *ret_compared,
		  struct error *err) MUST_CHECK;

#endif
