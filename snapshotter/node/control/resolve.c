// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/control/resolve.h"

#include <errno.h>
#include <string.h>

#include "snapshotter/node/images/content.h"

/* ------------------------------------------------------------------ names --- */

void image_name_fini(struct image_name *n)
{
	oci_ref_fini(&n->ref);
	free(n->text);
	free(n->alias);
}

int image_name_init(struct image_name *n, const struct image_query *q,
		    struct error *err)
{
	char digest[DIGEST_STR_MAX];
	int rc;

	*n = (struct image_name){ .call = q->call,
				  .plain_http = q->plain_http };
	rc = oci_ref_parse(q->ref, &n->ref, err);
	if (rc < 0)
		return rc;
	if (n->ref.transport != OCI_TRANSPORT_REGISTRY)
		return error_set(err, EINVAL,
				 "'%s': a node mounts images of registries "
				 "only; wanted: host[:port]/repo[:tag]",
				 q->ref);
	if (q->manifest)
		n->digest = *q->manifest;
	else if (n->ref.has_digest)
		n->digest = n->ref.digest;
	n->pinned = q->manifest || n->ref.has_digest;
	n->of_image = q->manifest;
	if (n->pinned) {
		digest_format(&n->digest, digest);
		rc = asprintf(&n->text, "%s/%s@%s", n->ref.host, n->ref.repo,
			      digest);
	} else {
		rc = asprintf(&n->text, "%s/%s:%s", n->ref.host, n->ref.repo,
			      n->ref.tag);
		n->alias = rc < 0 ? NULL : strdup(n->text);
	}
	if (rc < 0) {
		n->text = NULL;
		return error_nomem(err);
	}
	return 0;
}

char *image_name_of_digest(const struct image_name *n, const struct digest *d)
{
	char digest[DIGEST_STR_MAX], *text;

	digest_format(d, digest);
	return asprintf(&text, "%s/%s@%s", n->ref.host, n->ref.repo, digest) < 0
		       ? NULL
		       : text;
}

struct image *image_name_find(const struct image_name *n, struct images *images,
			      const struct digest *d)
{
	AUTO_FREE char *text = image_name_of_digest(n, d);

	return text ? images_by_name(images, text) : NULL;
}

/* -------------------------------------------------------------- manifests --- */

static int get_by_digest(struct oci_store *store, const struct digest *d,
			 struct oci_manifest *ret, struct error *err)
{
	char text[DIGEST_STR_MAX];

	digest_format(d, text);
	return oci_get_manifest(store, text, ret, err);
}

static int get_named(const struct image_name *n, struct oci_store *store,
		     struct oci_manifest *ret, struct error *err)
{
	if (n->pinned)
		return get_by_digest(store, &n->digest, ret, err);
	return oci_get_manifest(store, n->ref.tag, ret, err);
}

int resolve_top(const struct image_name *n, struct oci_store *store,
		const char *containerd_root, struct resolved *ret,
		struct error *err)
{
	struct resolved r = RESOLVED_INIT;
	bool is_here;
	int rc = 0;

	/* The digest that containerd's CRI gives is that of a manifest which it has just
	 * pulled.  Take containerd's copy if there is one, since some registries count
	 * manifests against a quota.  Ask for the list of artifacts at the same time, as a
	 * guess if the manifest is not here and the registry may not have the image. */
	is_here = n->of_image && content_get_manifest(containerd_root,
						      &n->digest, &r.manifest);
	if (n->of_image)
		r.early = artifact_early_begin(store, &n->digest, !is_here);
	if (!is_here)
		rc = get_named(n, store, &r.manifest, err);
	if (rc < 0) {
		artifact_early_free(r.early);
		return rc;
	}
	r.top = r.manifest.digest;
	*ret = r;
	return 0;
}

static int find_platform(struct oci_manifest *m, struct oci_store *store,
			 struct error *err)
{
	struct oci_manifest below = { .body = BUF_INIT };
	struct digest d;
	int rc;

	if (!oci_media_type_is_index(m->media_type))
		return 0;
	rc = oci_index_find(store, m, NULL, &d, err);
	if (rc == 0)
		rc = get_by_digest(store, &d, &below, err);
	if (rc < 0)
		return rc;
	oci_manifest_fini(m);
	*m = below;
	if (oci_media_type_is_index(m->media_type)) {
		oci_manifest_fini(m);
		return error_set(err, EINVAL,
				 "an index that another index calls an image");
	}
	return 0;
}

int resolve_platform(struct resolved *r, struct oci_store *store,
		     struct error *err)
{
	return find_platform(&r->manifest, store, err);
}

void resolved_fini(struct resolved *r)
{
	artifact_early_free(r->early);
	oci_manifest_fini(&r->manifest);
}

int resolve_manifest(struct origins *origins, const struct image_query *q,
		     struct origin **ret_origin, struct oci_manifest *ret,
		     struct error *err)
{
	struct oci_manifest m = { .body = BUF_INIT };
	struct store_lease *lease = NULL;
	struct origin *origin = NULL;
	struct image_name n;
	int rc = image_name_init(&n, q, err);

	if (rc == 0)
		rc = origin_get(origins, n.ref.host, n.ref.repo, q->plain_http,
				&origin, err);
	if (rc == 0)
		rc = origin_lease_paced(origin, &q->call->pace, &lease, err);
	if (rc == 0)
		rc = get_named(&n, lease->store, &m, err);
	if (rc == 0)
		rc = find_platform(&m, lease->store, err);
	if (rc < 0) {
		rc = remote_call_why(q->call, n.ref.host ? n.ref.host : "", rc,
				     err);
		error_wrap(err, rc, "image %s", n.text ? n.text : q->ref);
		oci_manifest_fini(&m);
		origin_put(origin);
	} else {
		*ret = m;
		*ret_origin = origin;
	}
	store_lease_end(lease);
	image_name_fini(&n);
	return rc;
}
