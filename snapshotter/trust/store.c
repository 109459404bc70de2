// SPDX-License-Identifier: Apache-2.0
/* Signatures in stores: docs/formats/signature.md, In a registry. */
#include <errno.h>
#include <string.h>

#include "common/base64.h"
#include "common/json.h"
#include "snapshotter/trust/trust_priv.h"

#define MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"
#define EMPTY_TYPE "application/vnd.oci.empty.v1+json"
#define EMPTY "{}"
#define COSIGN_ANNOTATION "dev.cosignproject.cosign/signature"

void trust_signatures_fini(struct trust_signatures *s)
{
	for (size_t i = 0; i < s->n; i++)
		buf_fini(&s->v[i]);
	s->n = 0;
}

/* Is the failure one of this signature alone?  A damaged, missing or unknown signature must not
 * hide a good one. */
static bool can_pass_over(int rc)
{
	return rc == -ENOENT || rc == -EBADMSG || rc == -EINVAL ||
	       rc == -EFBIG || rc == -EPROTO || rc == -ENOTSUP;
}

/* -------------------------------------------------------------------- reading --- */

/* Decode a signature from the annotation's base64. */
static int decode_signature(const char *text, struct buf *ret,
			    struct error *err)
{
	int rc;

	if (strlen(text) > TRUST_SIGNATURE_MAX)
		return error_set(err, EFBIG, "a signature of %zu bytes",
				 strlen(text));
	rc = base64_decode(text, strlen(text), ret);
	if (rc == -ENOMEM)
		return error_nomem(err);
	return rc < 0 ? error_set(err, EINVAL, "its signature is no base 64")
		      : 0;
}

/* Read the signature from one of our signature manifests. */
static int read_own_signature(const struct oci_manifest *m, struct buf *ret,
			      struct error *err)
{
	AUTO_FREE char *text = NULL;
	struct oci_image image;
	int rc = oci_image_parse(m->body.data, m->body.len, &image, err);

	if (rc < 0)
		return rc;
	text = oci_annotation(image.annotations, TRUST_ANNOTATION);
	if (strcmp(image.artifact_type, TRUST_ARTIFACT_TYPE) != 0 || !text)
		rc = error_set(err, EINVAL, "it holds no signature");
	oci_image_fini(&image);
	return rc < 0 ? rc : decode_signature(text, ret, err);
}

static int fetch_one(struct oci_store *store, const struct digest *manifest,
		     struct buf *ret, struct error *err)
{
	struct oci_manifest m = { .body = BUF_INIT };
	char text[DIGEST_STR_MAX];
	int rc;

	digest_format(manifest, text);
	rc = oci_get_manifest(store, text, &m, err);
	if (rc == 0)
		rc = read_own_signature(&m, ret, err);
	oci_manifest_fini(&m);
	return rc < 0 ? error_wrap(err, rc, "signature %s", text) : 0;
}

static int list_ours(struct oci_store *store, const struct digest *artifact,
		     struct oci_referrers *ret, struct error *err)
{
	const struct oci_referrers_query q = {
		.subject = artifact,
		.artifact_type = TRUST_ARTIFACT_TYPE,
		.note = TRUST_ANNOTATION,
	};
	int rc = oci_list_noted(store, &q, ret, err);

	return rc == -ENOENT ? 0 : rc;
}

/* Called with each signature; a result other than 0 ends the walk. */
typedef int signature_fn(void *arg, struct buf *sig,
			 const struct digest *manifest, struct error *err);

static size_t first_referrer_to_read(const struct oci_referrers *list)
{
	return list->n > TRUST_SIGNATURES_MAX ? list->n - TRUST_SIGNATURES_MAX
					      : 0;
}

/* Call `each` for the signatures that the list of referrers contains, without further requests.
 * They may be incomplete or differ from their manifests, so if none is good, the manifests are
 * read. */
static int call_for_each_noted_signature(const struct oci_referrers *list,
					 signature_fn *each, void *arg,
					 struct error *err)
{
	size_t end = first_referrer_to_read(list);
	int rc = 0;

	for (size_t i = list->n; rc == 0 && list->notes && i > end; i--) {
		const char *text = list->notes[i - 1];
		AUTO_BUF sig = BUF_INIT;

		if (text && decode_signature(text, &sig, NULL) == 0)
			rc = each(arg, &sig, &list->digests[i - 1], err);
	}
	return rc;
}

static int each_listed(struct oci_store *store,
		       const struct oci_referrers *list, signature_fn *each,
		       void *arg, struct error *err)
{
	size_t end = first_referrer_to_read(list);
	int rc = 0;

	for (size_t i = list->n; rc == 0 && i > end; i--) {
		AUTO_BUF sig = BUF_INIT;

		rc = fetch_one(store, &list->digests[i - 1], &sig, err);
		if (rc < 0 && can_pass_over(rc))
			rc = 0;
		else if (rc == 0)
			rc = each(arg, &sig, &list->digests[i - 1], err);
	}
	return rc;
}

/* Call `each` for our signatures; `more`: some were not read. */
static int call_for_each_own_signature(struct oci_store *store,
				       const struct digest *artifact,
				       signature_fn *each, void *arg,
				       bool *more, struct error *err)
{
	AUTO_FINI(oci_referrers) list = { .n = 0 };
	int rc = list_ours(store, artifact, &list, err);

	if (rc == 0)
		rc = each_listed(store, &list, each, arg, err);
	*more = first_referrer_to_read(&list) > 0;
	return rc;
}

/* Find the first of our signatures that `each` accepts. */
static int find_ours(struct oci_store *store, const struct digest *artifact,
		     signature_fn *each, void *arg, struct error *err)
{
	AUTO_FINI(oci_referrers) list = { .n = 0 };
	int rc = list_ours(store, artifact, &list, err);

	if (rc == 0)
		rc = call_for_each_noted_signature(&list, each, arg, err);
	if (rc == 0)
		rc = each_listed(store, &list, each, arg, err);
	return rc;
}

/* The tag of cosign's signatures of a manifest. */
#define COSIGN_TAG_MAX (DIGEST_STR_MAX + 8)
static void cosign_tag(const struct digest *d, char ret[COSIGN_TAG_MAX])
{
	char text[DIGEST_STR_MAX];

	digest_format(d, text);
	*strchr(text, ':') = '-';
	(void)snprintf(ret, COSIGN_TAG_MAX, "%s.sig", text);
}

static int fetch_cosign(struct oci_store *store, const struct oci_descriptor *l,
			struct buf *ret, struct error *err)
{
	AUTO_FREE char *text =
		oci_annotation(l->annotations, COSIGN_ANNOTATION);
	AUTO_BUF payload = BUF_INIT;
	AUTO_BUF sig = BUF_INIT;
	int rc;

	if (strcmp(l->media_type, TRUST_COSIGN_TYPE) != 0 || !text)
		return error_set(err, EINVAL, "no signature of cosign");
	if (strlen(text) > TRUST_SIGNATURE_MAX ||
	    base64_decode(text, strlen(text), &sig) < 0)
		return error_set(err, EINVAL, "its signature is no base 64");
	rc = oci_get_blob(store, &l->digest, l->size, TRUST_SIGNATURE_MAX,
			  &payload, err);
	return rc < 0 ? rc
		      : trust_wrap_cosign(payload.data, payload.len, sig.data,
					  sig.len, ret, err);
}

static int call_for_each_cosign_signature(struct oci_store *store,
					  const struct digest *artifact,
					  signature_fn *each, void *arg,
					  bool *more, struct error *err)
{
	struct oci_manifest m = { .body = BUF_INIT };
	struct oci_image image = { .n_layers = 0 };
	char tag[COSIGN_TAG_MAX];
	size_t n;
	int rc;

	cosign_tag(artifact, tag);
	rc = oci_get_manifest(store, tag, &m, err);
	if (rc == 0)
		rc = oci_image_parse(m.body.data, m.body.len, &image, err);
	n = image.n_layers < TRUST_SIGNATURES_MAX ? image.n_layers
						  : TRUST_SIGNATURES_MAX;
	*more = n < image.n_layers;
	for (size_t i = 0; rc == 0 && i < n; i++) {
		AUTO_BUF sig = BUF_INIT;

		rc = fetch_cosign(store, &image.layers[i], &sig, err);
		if (rc < 0 && can_pass_over(rc))
			rc = 0;
		else if (rc == 0)
			rc = each(arg, &sig, &m.digest, err);
	}
	oci_image_fini(&image);
	oci_manifest_fini(&m);
	return can_pass_over(rc) ? 0 : rc;
}

/* -------------------------------------------------------- --- all signatures --- */

static int collect_signatures(void *arg, struct buf *sig,
			      const struct digest *manifest, struct error *err)
{
	struct trust_signatures *s = arg;

	if (s->n == TRUST_SIGNATURES_MAX) {
		s->more = true;
		return 0;
	}
	s->manifest[s->n] = *manifest;
	s->v[s->n++] = *sig;
	*sig = (struct buf)BUF_INIT;
	return 0;
}

int trust_fetch(struct oci_store *store, const struct digest *artifact,
		struct trust_signatures *ret, struct error *err)
{
	struct trust_signatures s = { .n = 0 };
	bool more_ours = false, more_cosign = false;
	int rc =
		call_for_each_own_signature(store, artifact, collect_signatures,
					    &s, &more_ours, err);

	if (rc == 0)
		rc = call_for_each_cosign_signature(store, artifact,
						    collect_signatures, &s,
						    &more_cosign, err);
	s.more |= more_ours || more_cosign;
	if (rc < 0)
		trust_signatures_fini(&s);
	else
		*ret = s;
	return rc;
}

/* ----------------------------------------------- --- finding a good signature --- */

/* How close a refused signature came to being accepted, for the best message.  A sufficient
 * claim by an unlisted key is closer than an insufficient claim, since adding the key would do. */
enum nearness {
	NEAR_NONE,
	NEAR_DAMAGED,
	NEAR_UNKNOWN_KEY,
	NEAR_TOO_LITTLE,
	NEAR_ENOUGH_BY_UNKNOWN_KEY,
	NEAR_OTHER,
};

static enum nearness nearness_of(int rc, const struct buf *sig,
				 const struct trust_query *q)
{
	struct trust_statement s;

	switch (-rc) {
	case EBADMSG:
		return NEAR_DAMAGED;
	case EPERM:
		return NEAR_TOO_LITTLE;
	case ENOKEY:
		return q->claim == TRUST_CLAIM_VERIFIED &&
				       !trust_is_cosign(sig->data, sig->len) &&
				       trust_decode(sig->data, sig->len, &s,
						    NULL) == 0 &&
				       s.claim >= q->claim
			       ? NEAR_ENOUGH_BY_UNKNOWN_KEY
			       : NEAR_UNKNOWN_KEY;
	default:
		return NEAR_OTHER;
	}
}

struct trust_search {
	const struct trust_keys *keys;
	const struct trust_query *query;
	int64_t now_s;
	const struct trust_revoked *revoked;
	struct trust_result *ret;
	struct buf *ret_sig;
	enum nearness nearest;
	int rc; /* why the signature that came nearest does not count */
	struct error why;
};

/* Check a signature; 1: it is good. */
static int check_one_signature(void *arg, struct buf *sig,
			       const struct digest *manifest, struct error *err)
{
	struct trust_search *s = arg;
	struct error why = ERROR_INIT;
	enum nearness near;
	int rc = trust_check(s->keys, s->query, sig->data, sig->len, s->now_s,
			     s->revoked, s->ret, &why);

	if (rc == 0) {
		if (s->ret_sig) {
			buf_fini(s->ret_sig);
			*s->ret_sig = *sig;
			*sig = (struct buf)BUF_INIT;
		}
		return 1;
	}
	near = nearness_of(rc, sig, s->query);
	if (near > s->nearest) {
		s->nearest = near;
		s->rc = rc;
		s->why = why;
	}
	return 0;
}

static int note_cosign_is_there(void *arg, struct buf *sig,
				const struct digest *manifest,
				struct error *err)
{
	bool *is_signed = arg;

	*is_signed = true;
	return 0;
}

/* None of our signatures exists: return why, which is cosign's signature if there is an
 * insufficient one. */
static int refuse_unsigned(struct oci_store *store, const struct trust_query *q,
			   struct error *err)
{
	bool is_signed = false, more;

	if (q->claim != TRUST_CLAIM_SIGNED &&
	    call_for_each_cosign_signature(store, q->artifact,
					   note_cosign_is_there, &is_signed,
					   &more, NULL) == 0 &&
	    is_signed)
		return error_set(err, EPERM,
				 "cosign signed it, but nobody has compared it "
				 "with the image's layers and signed that: "
				 "'bootseer image verify' does");
	return error_set(err, ENODATA,
			 "nobody signed it: 'bootseer image %s' does",
			 q->claim == TRUST_CLAIM_SIGNED ? "sign" : "verify");
}

int trust_find(struct oci_store *store, const struct trust_keys *keys,
	       const struct trust_query *q, int64_t now_s,
	       const struct trust_revoked *revoked, struct trust_result *ret,
	       struct buf *ret_sig, struct error *err)
{
	struct trust_search s = { .keys = keys,
				  .query = q,
				  .now_s = now_s,
				  .revoked = revoked,
				  .ret = ret,
				  .ret_sig = ret_sig };
	char text[TRUST_SHORT_MAX];
	bool more;
	int rc = find_ours(store, q->artifact, check_one_signature, &s, err);

	/* A cosign signature can only claim "signed". */
	if (rc == 0 && q->claim == TRUST_CLAIM_SIGNED)
		rc = call_for_each_cosign_signature(store, q->artifact,
						    check_one_signature, &s,
						    &more, err);
	if (rc > 0)
		return 0;
	trust_short(q->artifact, text);
	if (rc == 0 && s.rc) {
		rc = s.rc;
		if (err)
			*err = s.why;
	} else if (rc == 0) {
		rc = refuse_unsigned(store, q, err);
	}
	return error_wrap(err, rc, "artifact %s", text);
}

/* -------------------------------------------------------------------- writing --- */

static char *format_manifest(const struct digest *artifact,
			     uint64_t artifact_size, const struct digest *empty,
			     const char *text)
{
	json_t *root =
		json_pack("{s:i, s:s, s:s, s:o, s:[o], s:o, s:{s:s}}",
			  "schemaVersion", 2, "mediaType", MANIFEST_TYPE,
			  "artifactType", TRUST_ARTIFACT_TYPE, "config",
			  json_descriptor(EMPTY_TYPE, empty, strlen(EMPTY)),
			  "layers",
			  json_descriptor(EMPTY_TYPE, empty, strlen(EMPTY)),
			  "subject",
			  json_descriptor(MANIFEST_TYPE, artifact,
					  artifact_size),
			  "annotations", TRUST_ANNOTATION, text);
	char *body = root ? json_dumps(root, JSON_COMPACT) : NULL;

	json_decref(root);
	return body;
}

int trust_push(struct oci_store *store, const struct digest *artifact,
	       uint64_t artifact_size, const void *sig, size_t len,
	       struct digest *ret, struct error *err)
{
	AUTO_FREE char *body = NULL;
	AUTO_BUF text = BUF_INIT;
	struct digest empty, d;
	int rc = base64_encode(sig, len, &text);

	if (rc < 0)
		return error_nomem(err);
	rc = oci_put_bytes(store, EMPTY, strlen(EMPTY), &empty, err);
	if (rc == 0) {
		body = format_manifest(artifact, artifact_size, &empty,
				       text.data);
		rc = body && digest_of(body, strlen(body), &d) == 0
			     ? oci_put_manifest(store, NULL, MANIFEST_TYPE,
						body, strlen(body), err)
			     : error_nomem(err);
	}
	if (rc == 0 && ret)
		*ret = d;
	return rc < 0 ? error_wrap(err, rc, "store the signature") : 0;
}

int trust_remove(struct oci_store *store, const struct digest *artifact,
		 struct error *err)
{
	struct oci_manifest m = { .body = BUF_INIT };
	struct oci_referrers list = { .n = 0 };
	char tag[COSIGN_TAG_MAX];
	int rc = list_ours(store, artifact, &list, err);

	for (size_t i = 0; rc == 0 && i < list.n; i++) {
		rc = oci_remove_manifest(store, &list.digests[i], err);
		if (rc == -ENOENT)
			rc = 0;
	}
	oci_referrers_fini(&list);
	cosign_tag(artifact, tag);
	if (rc == 0)
		rc = oci_get_manifest(store, tag, &m, err);
	if (rc == 0)
		rc = oci_remove_manifest(store, &m.digest, err);
	oci_manifest_fini(&m);
	return rc < 0 && rc != -ENOENT
		       ? error_wrap(err, rc, "remove signatures")
		       : 0;
}
