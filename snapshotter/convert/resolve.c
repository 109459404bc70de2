// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/convert/resolve.h"

const char *resolve_name(const struct oci_ref *r, char text[DIGEST_STR_MAX])
{
	if (!r->has_digest)
		return r->tag;
	digest_format(&r->digest, text);
	return text;
}

int resolve_image(struct oci_store *s, const struct oci_ref *ref,
		  const char *platform, struct digest *ret, struct error *err)
{
	struct oci_manifest m = { .body = BUF_INIT };
	char text[DIGEST_STR_MAX];
	int rc = oci_get_manifest(s, resolve_name(ref, text), &m, err);

	if (rc < 0)
		return rc;
	*ret = m.digest;
	if (oci_media_type_is_index(m.media_type))
		rc = oci_index_select(m.body.data, m.body.len, platform, ret,
				      err);
	oci_manifest_fini(&m);
	return rc;
}
