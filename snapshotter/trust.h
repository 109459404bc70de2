// SPDX-License-Identifier: Apache-2.0
/*
 * Trust in the blocks of an image: signatures over artifacts
 * (docs/formats/signature.md), the keys that they are checked with, and where
 * both lie in a store.  A header of this folder for the node, and for cli.
 */
#ifndef BOOTSEER_SNAPSHOTTER_TRUST_H
#define BOOTSEER_SNAPSHOTTER_TRUST_H

#include <stdbool.h>

#include "common/sign_key.h"
#include "objects/oci.h"

#define TRUST_ARTIFACT_TYPE "application/vnd.bootseer.signature.v1"
#define TRUST_ANNOTATION "dev.bootseer.signature"
#define TRUST_COSIGN_TYPE "application/vnd.dev.cosign.simplesigning.v1+json"
/* bytes of a repository name or a pattern */
#define TRUST_PATTERN_MAX 511
#define TRUST_SIGNATURE_MAX (20u << 10) /* bytes of an encoded signature */
/* signatures of one artifact that are checked */
#define TRUST_SIGNATURES_MAX 16
#define TRUST_KEYS_MAX 64
#define TRUST_NAME_MAX 64 /* bytes of a key's name */

/* Claims that a signer makes about an artifact. */
enum trust_claim {
	TRUST_CLAIM_SIGNED = 1, /* the artifact has the image's blocks */
	/* the blocks were also compared with the image's layers */
	TRUST_CLAIM_VERIFIED = 2,
};
/* The claim's name: "signed", "verified". */
const char *trust_claim_name(enum trust_claim c);

/* ----------------------------------------------------------- repositories --- */

/*
 * The repository of a registry reference as signatures name it:
 * "host[:port]/path", the host in lower case, Docker Hub as "docker.io" and its
 * short names in full.  -EINVAL: it is no reference to a registry.
 */
int trust_repository(const struct oci_ref *ref, char ret[TRUST_PATTERN_MAX + 1],
		     struct error *err) MUST_CHECK;

/* Is it a repository name as above, or "PREFIX/" with an asterisk, for all repositories below
 * PREFIX?  -EINVAL says what is wrong. */
int trust_pattern_check(const char *pattern, struct error *err) MUST_CHECK;

/* Does the pattern match the repository?  Both as in trust_pattern_check(). */
bool trust_pattern_matches(const char *pattern, const char *repository);

/* ------------------------------------------------------------- statements --- */

struct trust_statement {
	struct digest artifact; /* digest of its manifest */
	/* digest of the image's manifest; zero: form flat */
	struct digest subject;
	enum trust_claim claim;
	char repository[TRUST_PATTERN_MAX + 1]; /* pattern */
	/* id of the signing key, verify_key_id(); trust_sign() sets it */
	struct digest key;
	int64_t not_before_s, not_after_s; /* seconds since 1970; 0: no limit */
};

/* Make a signature; no I/O.  -EINVAL: a member is not as the format requires. */
int trust_sign(const struct sign_key *key, const struct trust_statement *s,
	       uint8_t ret[TRUST_SIGNATURE_MAX], size_t *ret_len,
	       struct error *err) MUST_CHECK;

/* Decode a statement without checking its signature. -EBADMSG. */
int trust_decode(const void *data, size_t len, struct trust_statement *ret,
		 struct error *err) MUST_CHECK;

/* Pack a cosign signature into one text, so that nodes handle both kinds of signatures alike;
 * trust_check() takes either. -EFBIG. */
int trust_wrap_cosign(const void *payload, size_t payload_len,
		      const void *signature, size_t signature_len,
		      struct buf *ret, struct error *err) MUST_CHECK;
bool trust_is_cosign(const void *data, size_t len);

/* ------------------------------------------------------------------- keys --- */

/* Uses of a key. */
#define TRUST_USE_SIGN 1u /* the key may claim "signed" */
/* the key may claim "verified", which includes "signed" */
#define TRUST_USE_VERIFY 2u

struct trust_key {
	struct verify_key *key;
	char name[TRUST_NAME_MAX + 1]; /* for people; "": none */
	unsigned int uses;
	int64_t not_after_s; /* 0: no limit */
};

struct trust_keys {
	struct trust_key v[TRUST_KEYS_MAX];
	size_t n;
};

/* Parse a list of public keys: docs/formats/signature.md, Lists of keys.  Messages name the
 * line.  Any thread may use the result. */
int trust_keys_parse(const char *text, size_t len, struct trust_keys **ret,
		     struct error *err) MUST_CHECK;
/* Load a list from a file, or from the files "*.pem" and "*.pub" of a folder. -EACCES:
 * everybody may write to it. */
int trust_keys_load(const char *path, struct trust_keys **ret,
		    struct error *err) MUST_CHECK;
void trust_keys_free(struct trust_keys *k);
DEFINE_AUTO(trust_keys)

/* Can a key have this name in a list?  -EINVAL says what is wrong with it. */
int trust_key_name_check(const char *name, struct error *err) MUST_CHECK;

/* Append the entry of a key to a text for trust_keys_parse(). */
int trust_key_format(const struct sign_key *key, const char *name,
		     unsigned int uses, int64_t not_after_s, struct buf *ret,
		     struct error *err) MUST_CHECK;

/* Format a time as "2027-01-31T00:00:00Z". */
#define TRUST_TIME_MAX 32
void trust_time_format(int64_t at_s, char ret[TRUST_TIME_MAX]);

/* --------------------------------------------------------------- checking --- */

/* The artifact and repository that a signature must be for. */
struct trust_query {
	const struct digest *artifact;
	const struct digest *subject; /* zero: form flat */
	const char *repository;       /* trust_repository() */
	/* the least that the signer has to claim */
	enum trust_claim claim;
};

/* Looks up keys that were revoked. */
struct trust_revoked {
	bool (*has)(void *arg, const struct digest *key);
	void *arg;
};

struct trust_result {
	enum trust_claim claim;
	struct digest key;
	char key_name[TRUST_NAME_MAX + 1];
	bool is_cosign;
	/* end of signature or key, whichever is first; 0: no limit */
	int64_t not_after_s;
};

/*
 * Is `sig` a signature for what `q` asks, by a key of the list, now?  Does no I/O.  `revoked`
 * may be NULL.
 *     -EBADMSG         no signature, or changed after it was made
 *     -ENOKEY          its key is not of the list
 *     -EKEYREVOKED
 *     -EKEYEXPIRED     signature or key: the time is over
 *     -EKEYREJECTED    not for this: another artifact, image or repository, not yet
 *     -EPERM           it says less than is asked for, or its key may not say it The message
 *   says which, and what to do.
 */
int trust_check(const struct trust_keys *keys, const struct trust_query *q,
		const void *sig, size_t len, int64_t now_s,
		const struct trust_revoked *revoked, struct trust_result *ret,
		struct error *err) MUST_CHECK;

/* ----------------------------------------------------------------- stores --- */

/* Signatures in the form that trust_check() takes. */
struct trust_signatures {
	struct buf v[TRUST_SIGNATURES_MAX];
	/* digest of the manifest that each came with */
	struct digest manifest[TRUST_SIGNATURES_MAX];
	size_t n;
	bool more; /* there are others, which were not read */
};
void trust_signatures_fini(struct trust_signatures *s);

/*
 * Read the signatures of an artifact from its store, unchecked: ours, the last listed first,
 * then cosign's.  Unreadable ones are skipped.  0 also if there is none; otherwise as
 * oci_get_manifest().
 */
int trust_fetch(struct oci_store *store, const struct digest *artifact,
		struct trust_signatures *ret, struct error *err) MUST_CHECK;

/*
 * Look for a signature that trust_check() takes.  cosign's are only asked for when none of ours
 * is good.  `ret_sig` (may be NULL) gets its bytes, to check it again without the store.
 *     -ENODATA when there is no signature; -ENOENT is never returned
 *     or as trust_check(), of the one that came nearest, or as trust_fetch()
 */
int trust_find(struct oci_store *store, const struct trust_keys *keys,
	       const struct trust_query *q, int64_t now_s,
	       const struct trust_revoked *revoked, struct trust_result *ret,
	       struct buf *ret_sig, struct error *err) MUST_CHECK;

/* Store a signature beside the artifact, whose manifest has `artifact_size` bytes. `ret` (may
 * be NULL) is the digest of the signature's manifest. */
int trust_push(struct oci_store *store, const struct digest *artifact,
	       uint64_t artifact_size, const void *sig, size_t len,
	       struct digest *ret, struct error *err) MUST_CHECK;

/* Remove the signatures of an artifact, cosign's too.  It is no error if there is none. */
int trust_remove(struct oci_store *store, const struct digest *artifact,
		 struct error *err) MUST_CHECK;

#endif
