// SPDX-License-Identifier: Apache-2.0
/* Manifests of objects: found by tag or name, and published. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "objects/repo/repo_store_priv.h"

#define NONCE 16

int repo_store_look(struct repo_store *s, const char *tag,
		    struct repo_manifest *ret, char version[OBJECT_TAG_MAX],
		    struct error *err)
{
	AUTO_FINI(oci_manifest) m = { .body = BUF_INIT };
	char text[DIGEST_STR_MAX];
	int rc = oci_get_manifest(s->oci, tag, &m, err);

	atomic_fetch_add(&s->base.count.n_requests, 1);
	if (rc < 0)
		return rc;
	rc = repo_manifest_parse(m.body.data, m.body.len, ret, err);
	if (rc == -EPROTO)
		rc = error_set(err, EPROTO,
			       "its tag leads to a manifest that is not one of "
			       "an object: delete the tag '%s', and if others "
			       "write to this repository, take one of its own",
			       tag);
	digest_format(&m.digest, text);
	(void)snprintf(version, OBJECT_TAG_MAX, "%s", text);
	return rc;
}

int repo_store_find(struct repo_store *s, const char *name,
		    struct repo_manifest *ret, char version[OBJECT_TAG_MAX],
		    struct error *err)
{
	char tag[REPO_TAG_MAX];
	int rc = repo_tag(name, tag, err);

	if (rc == 0)
		rc = repo_store_look(s, tag, ret, version, err);
	if (rc == 0 && strcmp(ret->name, name) != 0)
		rc = error_set(err, EPROTO,
			       "its tag leads to the object '%.200s'",
			       ret->name);
	return rc;
}

/* Every manifest names the blob "{}". */
static int put_empty(struct repo_store *s, struct error *err)
{
	struct digest d;
	int rc;

	if (atomic_load(&s->has_empty))
		return 0;
	rc = oci_put_bytes(s->oci, "{}", 2, &d, err);
	if (rc == 0)
		atomic_store(&s->has_empty, true);
	return rc;
}

/* docker-registry rewrites the link to a blob in place while others send the same blob:
 * who meets it half-written is told that the manifest is wrong. */
static int put_manifest(struct repo_store *s, const char *tag,
			const struct buf *body, struct error *err)
{
	static const struct retry_verdict again = { .can_retry = true };
	struct retry_budget budget;
	int rc;

	retry_init(&budget, &s->base, 0);
	do {
		atomic_fetch_add(&s->base.count.n_requests, 1);
		rc = oci_put_manifest(s->oci, tag, REPO_MANIFEST_TYPE,
				      body->data, body->len, err);
	} while (rc == -EIO && retry_again(&budget, &again, err));
	return rc;
}

int repo_store_publish(struct repo_store *s, const struct repo_manifest *m,
		       struct object_stat *ret, struct error *err)
{
	char tag[REPO_TAG_MAX], put[NONCE + 1], text[DIGEST_STR_MAX];
	AUTO_BUF body = BUF_INIT;
	struct digest d;
	int rc = repo_tag(m->name, tag, err);

	store_random(put, NONCE);
	if (rc == 0)
		rc = put_empty(s, err);
	if (rc == 0)
		rc = repo_manifest_format(m, put, &body, err);
	if (rc == 0 && digest_of(body.data, body.len, &d) < 0)
		rc = error_nomem(err);
	if (rc == 0)
		rc = put_manifest(s, tag, &body, err);
	if (rc < 0)
		return rc;
	digest_format(&d, text);
	ret->size = m->size;
	ret->modified_ms = m->modified_ms;
	(void)snprintf(ret->tag, sizeof(ret->tag), "%s", text);
	return 0;
}
