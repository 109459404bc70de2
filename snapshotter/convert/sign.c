// SPDX-License-Identifier: Apache-2.0
/* Signing artifacts, and the checks before. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "snapshotter/convert/convert_priv.h"

/* Seconds by which nodes' clocks may be behind. */
#define CLOCK_SLACK_S 300

static int64_t now_s(void)
{
	return (int64_t)time(NULL);
}

int sign_artifact(struct oci_store *store, const struct artifact *a,
		  uint64_t size, const struct sign_terms *terms,
		  enum trust_claim claim, struct error *err)
{
	uint8_t sig[TRUST_SIGNATURE_MAX];
	struct trust_statement s = {
		.artifact = a->digest,
		.subject = a->image,
		.claim = claim,
		.not_before_s = now_s() - CLOCK_SLACK_S,
	};
	size_t len;
	int rc = terms->before ? terms->before(terms->arg, err) : 0;

	if (rc < 0)
		return rc;
	if (terms->valid_s)
		s.not_after_s = now_s() + terms->valid_s;
	if (strlen(terms->repository) > TRUST_PATTERN_MAX)
		return error_set(err, EINVAL, "the pattern is too long");
	strcpy(s.repository, terms->repository);
	rc = trust_sign(terms->key, &s, sig, &len, err);
	if (rc == 0)
		rc = trust_push(store, &a->digest, size, sig, len, NULL, err);
	return rc < 0 ? error_wrap(err, rc, "sign the artifact") : 0;
}

int remove_artifact(struct oci_store *store, const struct digest *artifact,
		    struct error *err)
{
	int rc = trust_remove(store, artifact, err);

	return rc < 0 ? rc : oci_remove_manifest(store, artifact, err);
}

/* --------------------------------------------------- --- existing signatures --- */

int sign_own_list(const struct sign_key *key, struct trust_keys **ret,
		  struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	int rc = trust_key_format(key, NULL, TRUST_USE_SIGN | TRUST_USE_VERIFY,
				  0, &text, err);

	return rc < 0 ? rc : trust_keys_parse(text.data, text.len, ret, err);
}

void sign_example(const char *pattern, char ret[TRUST_PATTERN_MAX + 2])
{
	size_t n = (size_t)snprintf(ret, TRUST_PATTERN_MAX + 1, "%s", pattern);

	if (n > TRUST_PATTERN_MAX)
		n = TRUST_PATTERN_MAX;
	if (n && ret[n - 1] == '*')
		ret[n - 1] = 'x';
}

/* Does the signature make the same statement as a new one would, for at least as long? */
static bool is_same_statement(const struct buf *sig, const struct artifact *a,
			      const struct sign_terms *terms,
			      const struct trust_keys *own)
{
	char any[TRUST_PATTERN_MAX + 2];
	struct trust_query q = { .artifact = &a->digest,
				 .subject = &a->image,
				 .repository = any,
				 .claim = TRUST_CLAIM_SIGNED };
	int64_t until = now_s() + terms->valid_s;
	struct trust_statement s;
	struct trust_result r;

	if (trust_is_cosign(sig->data, sig->len) ||
	    trust_decode(sig->data, sig->len, &s, NULL) < 0 ||
	    strcmp(s.repository, terms->repository) != 0 ||
	    (s.not_after_s && (!terms->valid_s || s.not_after_s < until)))
		return false;
	sign_example(s.repository, any);
	return trust_check(own, &q, sig->data, sig->len, now_s(), NULL, &r,
			   NULL) == 0;
}

static int is_signed(struct oci_store *store, const struct artifact *a,
		     const struct sign_terms *terms, bool *ret,
		     struct error *err)
{
	AUTO(trust_keys) own = NULL;
	struct trust_signatures all;
	int rc = sign_own_list(terms->key, &own, err);

	*ret = false;
	if (rc == 0)
		rc = trust_fetch(store, &a->digest, &all, err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < all.n && !*ret; i++)
		*ret = is_same_statement(&all.v[i], a, terms, own);
	trust_signatures_fini(&all);
	return 0;
}

/* ---------------------------------------------- --- comparing with the layers --- */

/* Keeps the first difference, for the message. */
struct first_difference {
	struct compare_report base;
	struct compare_report *next; /* or NULL */
	char text[160];
};

static void note_first_difference(struct compare_report *base, const char *path,
				  const char *what)
{
	struct first_difference *f =
		container_of(base, struct first_difference, base);

	if (base->n == 1)
		(void)snprintf(f->text, sizeof(f->text), "%.100s: %s", path,
			       what);
	if (!f->next)
		return;
	f->next->n++;
	if (f->next->differs)
		f->next->differs(f->next, path, what);
}

/* Compare the artifact with the layers; -EBADMSG if they differ. */
static int compare_first(const struct check_target *t,
			 const struct check_options *opt, struct error *err)
{
	struct first_difference first = { .base.differs = note_first_difference,
					  .next = opt->against_layers };
	struct check_options all = *opt;
	int rc;

	all.against_layers = &first.base;
	rc = check_artifact(t, &all, err);
	if (rc == 0 && first.base.n)
		rc = error_set(err, EBADMSG,
			       "it is not what the image's layers hold, in "
			       "%" PRIu64 " places (%s): it is not signed; "
			       "'image convert --force' replaces it",
			       first.base.n, first.text);
	return rc;
}

int sign_existing(const struct check_target *t, const struct check_options *opt,
		  const struct sign_terms *terms, bool *ret_compared,
		  struct error *err)
{
	const struct artifact *a = t->artifact;
	bool has = false;
	int rc = is_signed(t->store, a, terms, &has, err);

	if (rc < 0 || has)
		return rc;
	rc = compare_first(t, opt, err);
	if (rc == 0)
		rc = sign_artifact(t->store, a, a->manifest_json.len, terms,
				   TRUST_CLAIM_SIGNED, err);
	if (rc == 0)
		*ret_compared = true;
	return rc < 0 ? error_wrap(err, rc, "the artifact that it has") : 0;
}

/* -------------------------------------------------- --- choosing the artifact --- */

/* Accepts artifacts that the signer, or a key that the signer trusts, has signed already. */
struct own_judge {
	struct artifact_judge base;
	const struct trust_keys *own, *trusted; /* the latter or NULL */
	char repository[TRUST_PATTERN_MAX +
			2]; /* where `trusted` must have signed for */
};

/* Is it the signer's own signature?  It counts for any repository: the signer has vouched for
 * these blocks of this image. */
static bool is_own_signature(const struct own_judge *j, const struct buf *sig,
			     struct trust_query *q)
{
	char any[TRUST_PATTERN_MAX + 2];
	struct trust_statement s;
	struct trust_result r;

	q->repository = j->repository;
	if (j->trusted && trust_check(j->trusted, q, sig->data, sig->len,
				      now_s(), NULL, &r, NULL) == 0)
		return true;
	if (trust_is_cosign(sig->data, sig->len) ||
	    trust_decode(sig->data, sig->len, &s, NULL) < 0)
		return false;
	sign_example(s.repository, any);
	q->repository = any;
	return trust_check(j->own, q, sig->data, sig->len, now_s(), NULL, &r,
			   NULL) == 0;
}

static int own_judge_accept(struct artifact_judge *base,
			    struct oci_store *store,
			    const struct digest *artifact,
			    const struct digest *subject, struct buf *evidence,
			    struct error *err)
{
	const struct own_judge *j = container_of(base, struct own_judge, base);
	struct trust_query q = { .artifact = artifact,
				 .subject = subject,
				 .claim = TRUST_CLAIM_SIGNED };
	struct trust_signatures all;
	bool is_own = false;
	int rc = trust_fetch(store, artifact, &all, err);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < all.n && !is_own; i++)
		is_own = is_own_signature(j, &all.v[i], &q);
	trust_signatures_fini(&all);
	return is_own ? 0 : error_set(err, ENOKEY, "it is a stranger's");
}

/* No trusted key has signed an artifact: accept it only if it is the only one. */
static int find_only_artifact(struct check_opened *o,
			      const struct sign_options *opt, struct error *err)
{
	int rc = check_find(o, &opt->check, NULL, err);

	if (rc < 0 || o->all.n <= 1)
		return rc;
	return error_set(err, ENOTUNIQ,
			 "it has %zu artifacts, and none is signed by this key "
			 "or one of --trusted: --artifact DIGEST says which "
			 "('bootseer image inspect' lists them)",
			 o->all.n);
}

/* Choose the artifact to sign.  `ret_compare`: no trusted key has signed it, so it has to be
 * compared. */
static int sign_choose(struct check_opened *o, const struct sign_options *opt,
		       bool *ret_compare, struct error *err)
{
	struct own_judge judge = { .base.accept = own_judge_accept,
				   .trusted = opt->trusted };
	AUTO(trust_keys) own = NULL;
	struct error why = ERROR_INIT;
	int rc;

	*ret_compare = opt->claim == TRUST_CLAIM_VERIFIED;
	if (opt->check.artifact)
		return check_find(o, &opt->check, NULL, err);
	rc = sign_own_list(opt->terms.key, &own, err);
	if (rc < 0)
		return rc;
	judge.own = own;
	sign_example(opt->terms.repository, judge.repository);
	if (check_find(o, &opt->check, &judge.base, &why) == 0)
		return 0;
	*ret_compare = true;
	return find_only_artifact(o, opt, err);
}

/* ------------------------------------------------------------------- interface --- */

static int sign_opened(struct check_opened *o, const struct sign_options *opt,
		       struct sign_result *ret, struct error *err)
{
	const struct artifact *a = &o->artifact;
	int rc = sign_choose(o, opt, &ret->compared, err);

	if (rc == 0 && ret->compared)
		rc = compare_first(&o->target, &opt->check, err);
	if (rc == 0)
		rc = sign_artifact(o->store, a, a->manifest_json.len,
				   &opt->terms, opt->claim, err);
	ret->artifact = a->digest;
	return rc;
}

int image_sign(const struct oci_ref *ref, const struct sign_options *opt,
	       struct sign_result *ret, struct error *err)
{
	AUTO_FREE char *name = oci_ref_format(ref);
	struct check_opened o;
	int rc;

	if (!name)
		return error_nomem(err);
	rc = check_open(ref, &opt->check, &o, err);
	if (rc == 0)
		rc = sign_opened(&o, opt, ret, err);
	check_close(&o);
	return rc < 0 ? error_wrap(err, rc, "sign %s", name) : 0;
}
