// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/convert/publish.h"

#include <errno.h>

#define MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"

static int format_manifest(struct publish *p, const struct buf *config,
			   struct buf *ret, struct error *err)
{
	struct artifact *a = p->artifact;
	int rc;

	buf_reset(ret);
	rc = artifact_format_manifest(a, config, p->image_manifest_size,
				      p->image_media_type, ret, err);
	if (rc == 0 && ret->len > OCI_MANIFEST_MAX)
		rc = error_set(err, EFBIG, "its manifest has %zu bytes",
			       ret->len);
	if (rc == 0 && digest_of(ret->data, ret->len, &a->digest) < 0)
		rc = error_nomem(err);
	return rc;
}

/* Name the replaced artifacts in an annotation.  If there are too many, only the last:
 * artifacts that those had replaced are not used any more. */
static int name_replaced(struct publish *p, struct error *err)
{
	size_t n = p->n_others;
	AUTO_BUF text = BUF_INIT;
	char name[DIGEST_STR_MAX];

	for (size_t i = n > ARTIFACTS_MAX ? n - ARTIFACTS_MAX : 0; i < n; i++) {
		digest_format(&p->others[i], name);
		if (buf_printf(&text, "%s%s", text.len ? " " : "", name) < 0)
			return error_nomem(err);
	}
	p->artifact->replaces = steal_ptr(&text.data);
	return 0;
}

int publish_manifest(struct publish *p, const char *tag, struct error *err)
{
	struct artifact *a = p->artifact;
	AUTO_BUF config = BUF_INIT;
	AUTO_BUF manifest = BUF_INIT;
	struct digest stored;
	int rc = artifact_check_sizes(a, err);

	/* Fail here rather than at each node. */
	if (rc == 0)
		rc = artifact_format_config(a, &config, err);
	if (rc < 0)
		return error_wrap(err, rc, "publish the artifact");
	/* Store the config as a blob too: registries require what a manifest names, and older
	 * nodes do not read the copy in the manifest. */
	rc = oci_put_bytes(p->store, config.data, config.len, &stored, err);
	if (rc == 0)
		rc = format_manifest(p, &config, &manifest, err);
	if (rc == 0 && p->n_others &&
	    !(p->used && digest_equal(p->used, &a->digest))) {
		rc = name_replaced(p, err);
		if (rc == 0)
			rc = format_manifest(p, &config, &manifest, err);
	}
	p->manifest_size = manifest.len;
	if (rc == 0)
		rc = oci_put_manifest(p->store, tag, MANIFEST_TYPE,
				      manifest.data, manifest.len, err);
	return rc < 0 ? error_wrap(err, rc, "publish the artifact") : 0;
}
