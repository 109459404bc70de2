// SPDX-License-Identifier: Apache-2.0
/*
 * Which artifacts this node uses: the rules of policy.h applied to the signatures
 * that lie beside an artifact, offline, with the public keys that the operator
 * listed and without those that the service revoked.  Asked before an artifact is
 * used for anything, and again for each image that the node has when it is
 * prepared or mounted: a key that is over or revoked ends what it allowed, but for
 * what is mounted already.  Any thread.
 */
#ifndef BOOTSEER_NODE_ADMISSION_H
#define BOOTSEER_NODE_ADMISSION_H

#include "common/buf.h"
#include "net/control.h"
#include "objects/oci.h"
#include "snapshotter/node/config.h"
#include "snapshotter/node/trust/policy.h"

/* The code of every refusal in here: the image is to start the ordinary way. */
#define ADMISSION_REFUSED EKEYREJECTED

/* Why an image starts the ordinary way; each has a cure of its own. */
enum admission_reason {
	ADMISSION_UNKNOWN,
	ADMISSION_NO_RULE,
	ADMISSION_OFF,
	ADMISSION_NO_KEYS,         /* the node has none to check with */
	ADMISSION_LIST_DAMAGED,    /* of revoked keys */
	ADMISSION_UNSIGNED,        /* there is no signature */
	ADMISSION_DAMAGED,         /* or a damaged one */
	ADMISSION_UNKNOWN_KEY,     /* by a key that is not listed */
	ADMISSION_REVOKED,         /* its key was revoked */
	ADMISSION_EXPIRED,         /* it or its key is over */
	ADMISSION_OF_OTHER,        /* it is for another repository or image */
	ADMISSION_SAYS_TOO_LITTLE, /* it is of no comparison, or the key's uses */
	/* Not of trust: its registry could not be asked. */
	ADMISSION_NO_LOGIN, /* it wants a login that this node has not */
	ADMISSION_NO_ANSWER,
	ADMISSION_REASONS
};
/* The cure for people, in one sentence. */
const char *admission_cure(enum admission_reason r);

struct image;
struct key_revocations;
struct admission;

/* -EINVAL: a rule that is none.  A file of keys that is missing or damaged is no
 * error here: nothing that needs it is trusted, and admission_check() says so.
 * `revoked` (borrowed, may be NULL) tells of revoked keys. */
int admission_open(const struct node_config *cfg,
		   struct key_revocations *revoked, struct admission **ret,
		   struct error *err) MUST_CHECK;
void admission_close(struct admission *a); /* NULL is allowed */

/* For --check-config: are the files of keys lists that can be used?  That there is
 * no --trust-keys yet is no error, a rule's own file must be there. */
int admission_check_files(const struct node_config *cfg,
			  struct error *err) MUST_CHECK;

/* Read the files of keys again.  A file that is damaged now is as none: what it
 * allowed is refused until it is mended. */
void admission_reload(struct admission *a);

/* Is every file of keys there, with a key that is good now?  -errno and the first
 * that is not; -ENOKEY: signatures are wanted, and there is no file. */
int admission_check(struct admission *a, struct error *err) MUST_CHECK;

/* The rule of a repository, borrowed for as long as `a` is there.  NULL, `err` and (when not
 * NULL) `ret_why` when none allows an artifact there, or no key could be believed now:
 * no registry need be asked then. */
const struct policy_rule *admission_rule(struct admission *a, const char *host,
					 const char *repo,
					 enum admission_reason *ret_why,
					 struct error *err) MUST_CHECK;

/* An artifact of an image in a repository; all borrowed. */
struct admission_query {
	const char *host, *repo;
	const struct digest *artifact; /* its manifest */
	const struct digest *subject;  /* the image's manifest; zero: flat */
	/* Set when it is refused, unless it is set already; may be NULL. */
	enum admission_reason *why;
};

/* May it be used?  Reads the signatures beside it from `store` where the rule wants
 * any.  On success `evidence` holds what it was accepted for, to be asked again
 * offline. */
int admission_judge(struct admission *a, const struct admission_query *q,
		    struct oci_store *store, struct buf *evidence,
		    struct error *err) MUST_CHECK;

/* The same of an index that the service has, with the signature that came with it.  Nobody
 * pushed it into the repository, so a rule that believes the registry does not allow it. */
int admission_judge_offer(struct admission *a, const struct admission_query *q,
			  const struct buf *signature,
			  struct error *err) MUST_CHECK;

/* The same of an image that the node has, by the evidence in its folder.  No
 * registry is asked.  `ret_why` as in struct admission_query.  On success `ret_scope` says
 * how far its snapshots may be shared: a prefix of repositories that `a` owns. */
int admission_recheck(struct admission *a, const struct image *i,
		      enum admission_reason *ret_why, const char **ret_scope,
		      struct error *err) MUST_CHECK;

/* Remember, and log the first time, that `image` ("host/repo:tag") starts the
 * ordinary way for this reason. */
void admission_note(struct admission *a, const char *image,
		    enum admission_reason reason, const struct error *why);

/* `image` does not start the ordinary way any more: forget why it did. */
void admission_settle(struct admission *a, const char *image);

/* The images that start the ordinary way, newest first: image, reason, cure, at
 * (seconds since 1970).  NULL when memory is short. */
json_t *admission_refusals(struct admission *a) MUST_CHECK;

#endif
