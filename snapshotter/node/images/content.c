// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/images/content.h"

#include <errno.h>
#include <string.h>

#include "common/fs.h"

#define BLOBS "io.containerd.content.v1.content/blobs"

char *content_path(const char *root, const struct digest *d)
{
	char name[DIGEST_STR_MAX], *path;

	digest_format(d, name);
	*strchr(name, ':') = '/';
	return asprintf(&path, "%s/" BLOBS "/%s", root, name) < 0 ? NULL : path;
}

static int read_blob_file(const char *root, const struct digest *d,
			  struct buf *ret)
{
	AUTO_FREE char *path = content_path(root, d);
	struct error ignored = ERROR_INIT;

	return path ? fs_read_file(path, OCI_MANIFEST_MAX, ret, &ignored)
		    : -ENOMEM;
}

bool content_get_manifest(const char *containerd_root, const struct digest *d,
			  struct oci_manifest *ret)
{
	struct oci_image parsed = { .n_layers = 0 };
	struct error ignored = ERROR_INIT;
	AUTO_BUF body = BUF_INIT;
	struct digest found;

	if (!containerd_root || !*containerd_root ||
	    read_blob_file(containerd_root, d, &body) < 0 || !body.len ||
	    digest_of(body.data, body.len, &found) < 0 ||
	    !digest_equal(&found, d) ||
	    oci_image_parse(body.data, body.len, &parsed, &ignored) < 0)
		return false;
	oci_image_fini(&parsed);
	ret->body = body;
	body = (struct buf)BUF_INIT;
	ret->digest = *d;
	strcpy(ret->media_type, "application/vnd.oci.image.manifest.v1+json");
	return true;
}
