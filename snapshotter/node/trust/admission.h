// SPDX-License-Identifier: Apache-2.0
/*
 * Which artifacts this node uses: the rules of policy.h are applied to the signatures beside an
 * artifact, offline, with the public keys that the operator listed, without those that the
 * service revoked.  An artifact is checked before it is used for anything, and again whenever
 * its image is prepared or mounted: an expired or revoked key ends what it allowed, except for
 * mounts that exist already.  Any thread.
 */
#ifndef BOOTSEER_NODE_ADMISSION_H
#define BOOTSEER_NODE_ADMISSION_H

#include "common/buf.h"
#include "net/control.h"
#include "objects/oci.h"
#include "snapshotter/node/config.h"
#include "snapshotter/node/trust/policy.h"

/* The error code of every refusal: the image is to start the ordinary way. */
#define ADMISSION_REFUSED EKEYREJECTED

/* Why an image starts the ordinary way; admission_cure() has a cure for each. */
enum admission_reason {
	ADMISSION_UNKNOWN,
	ADMISSION_NO_RULE,
	ADMISSION_OFF,
	/* the node has no keys to check signatures with */
	ADMISSION_NO_KEYS,
	ADMISSION_LIST_DAMAGED, /* the list of revoked keys is damaged */
	ADMISSION_UNSIGNED,     /* there is no signature */
	ADMISSION_DAMAGED,      /* its signature is damaged */
	ADMISSION_UNKNOWN_KEY,  /* signed by a key that is not listed */
	ADMISSION_REVOKED,      /* the signature's key was revoked */
	ADMISSION_EXPIRED,      /* the signature or its key has expired */
	/* the signature is for another repository or image */
	ADMISSION_OF_OTHER,
	/* the signature claims no comparison, or its key may not */
	ADMISSION_SAYS_TOO_LITTLE,
	/* Not about trust: the registry could not be asked. */
	/* the registry wants a login that this node does not have */
	ADMISSION_NO_LOGIN,
	ADMISSION_NO_ANSWER,
	ADMISSION_REASONS
};
/* The cure for people, in one sentence. */
const char *admission_cure(enum admission_reason r);

struct image;
struct key_revocations;
struct admission;

/* Open the rules.  -EINVAL: a rule is invalid.  A missing or damaged file of keys is no error
 * here: artifacts that need it are refused, and admission_check() reports it.  `revoked`
 * (borrowed, may be NULL) knows the revoked keys. */
int admission_open(const struct node_config *cfg,
		   struct key_revocations *revoked, struct admission **ret,
		   struct error *err) MUST_CHECK;
void admission_close(struct admission *a); /* NULL is allowed */

/* For --check-config: can the files of keys be used?  A missing --trust-keys is no error, a
 * missing file of a rule is. */
int admission_check_files(const struct node_config *cfg,
			  struct error *err) MUST_CHECK;

/* Read the files of keys again.  A damaged file counts as empty: artifacts that it allowed are
 * refused until it is repaired. */
void admission_reload(struct admission *a);

/* Does every file of keys exist, with a key that is valid now?  -errno and the first file that
 * does not; -ENOKEY: signatures are wanted, and there is no file. */
int admission_check(struct admission *a, struct error *err) MUST_CHECK;

/* Get the rule of a repository, borrowed from `a`.  NULL, with `err` and `ret_why` (may be
 * NULL): no rule allows an artifact there, or no key is valid now, so no registry need be
 * asked. */
const struct policy_rule *admission_rule(struct admission *a, const char *host,
					 const char *repo,
					 enum admission_reason *ret_why,
					 struct error *err) MUST_CHECK;

/* An artifact of an image in a repository; all borrowed. */
struct admission_query {
	const char *host, *repo;
	const struct digest *artifact; /* digest of its manifest */
	/* digest of the image's manifest; zero: a flat image */
	const struct digest *subject;
	/* Set to the reason of a refusal, unless it is set already; may be NULL. */
	enum admission_reason *why;
};

/* May the artifact be used?  Reads its signatures from `store` if the rule wants any.  On
 * success `evidence` holds the accepted signature, for later checks offline. */
int admission_judge(struct admission *a, const struct admission_query *q,
		    struct oci_store *store, struct buf *evidence,
		    struct error *err) MUST_CHECK;

/* Judge an index of the service by the signature that came with it.  It was not pushed into the
 * repository, so a rule that trusts the registry does not allow it. */
int admission_judge_offer(struct admission *a, const struct admission_query *q,
			  const struct buf *signature,
			  struct error *err) MUST_CHECK;

/* Judge an image on the node again, by the signature in its folder, without a registry.
 * `ret_why` as in struct admission_query.  On success `ret_scope` is the prefix of the
 * repositories that may share its snapshots; `a` owns it. */
int admission_recheck(struct admission *a, const struct image *i,
		      enum admission_reason *ret_why, const char **ret_scope,
		      struct error *err) MUST_CHECK;

/* Remember that `image` ("host/repo:tag") starts the ordinary way for this reason; logged the
 * first time. */
void admission_note(struct admission *a, const char *image,
		    enum admission_reason reason, const struct error *why);

/* Forget the refusal of `image`, which does not start the ordinary way any more. */
void admission_settle(struct admission *a, const char *image);

/* The refused images, newest first: image, reason, cure, at (seconds since 1970).  NULL when
 * memory is short. */
json_t *admission_refusals(struct admission *a) MUST_CHECK;

#endif
