// SPDX-License-Identifier: Apache-2.0
/* A run of image_convert(). */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_PRIV_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_PRIV_H

#include "image/artifact/artifact.h"
#include "snapshotter/convert.h"

struct convert_run {
	const struct convert_options *opt;
	struct oci_store *src, *dst;
	bool spool;     /* keep layers on disk between the passes */
	bool by_digest; /* the image is put by its digest: no tag comes */
	struct convert_result *result; /* sums over platforms */
};

/* The arguments of check_artifact(). */
struct check_target {
	struct oci_store *store;
	const struct artifact *artifact;
	/* For against_layers: the image, and where its layers are. */
	const struct digest *image;
	struct oci_store *layers;
	bool spool; /* that store is far away: keep them between the passes */
};
int check_artifact(const struct check_target *t,
		   const struct check_options *opt,
		   struct error *err) MUST_CHECK;

/* The image of a reference with its store, and an artifact of it, as a target.
 * check_close() is always due. */
struct check_opened {
	struct oci_store *store;
	struct digest image;
	struct artifact artifact; /* of check_find() */
	struct artifact_usable
		all; /* among which it chose; none were it named */
	struct check_target target;
};
int check_open(const struct oci_ref *ref, const struct check_options *opt,
	       struct check_opened *ret, struct error *err) MUST_CHECK;
/* The artifact that the options name, else the one that a node with this judge (may
 * be NULL) would take. */
int check_find(struct check_opened *o, const struct check_options *opt,
	       struct artifact_judge *judge, struct error *err) MUST_CHECK;
void check_close(struct check_opened *o);

/* An artifact as unpacked: metadata image, and a file that is its device. */
struct unpacked {
	const void *meta;
	size_t meta_len;
	int data_fd; /* -1: not yet */
};

/* The part of check_artifact() that compares with the layers, whose headers are read
 * first.  Differences go to the options' report. */
struct against;
int against_open(const struct check_target *t, const struct check_options *opt,
		 struct against **ret, struct error *err) MUST_CHECK;
void against_free(struct against *a);
DEFINE_AUTO(against)
/* Before a block is unpacked: do blocks that cover so many bytes fit the layers?  If
 * they do not, what else differs was told. */
int against_sizes(struct against *a, const struct unpacked *u,
		  uint64_t n_covered, bool *ret_differs,
		  struct error *err) MUST_CHECK;
int against_compare(struct against *a, const struct unpacked *u,
		    struct error *err) MUST_CHECK;

/* The manifest of an artifact, and what was signed of it. */
int remove_artifact(struct oci_store *store, const struct digest *artifact,
		    struct error *err) MUST_CHECK;

/* Sign an artifact whose manifest is `size` long. */
int sign_artifact(struct oci_store *store, const struct artifact *a,
		  uint64_t size, const struct sign_terms *terms,
		  enum trust_claim claim, struct error *err) MUST_CHECK;

/* A list of the key's public half alone. */
int sign_own_list(const struct sign_key *key, struct trust_keys **ret,
		  struct error *err) MUST_CHECK;
/* A repository that the pattern matches. */
void sign_example(const char *pattern, char ret[TRUST_PATTERN_MAX + 2]);

/* Sign one that was there before: nothing when it is signed like that already,
 * and only when it is the same as the layers.  `ret_compared`: that was looked
 * at. */
int sign_existing(const struct check_target *t, const struct check_options *opt,
		  const struct sign_terms *terms, bool *ret_compared,
		  struct error *err) MUST_CHECK;

#endif
