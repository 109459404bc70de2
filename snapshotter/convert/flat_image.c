// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/convert/flat_image.h"

#include <string.h>

#include "common/bounded_json.h"
#include "common/json.h"
#include "image/artifact/artifact.h"
#include "snapshotter/convert/publish.h"

#define MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"
#define CONFIG_TYPE "application/vnd.oci.image.config.v1+json"
#define LAYER_TYPE "application/vnd.oci.image.layer.v1.tar+gzip"

/* Make the config from the old one, replacing only the list of layers. */
static int make_config(const struct flat_image *f, char **ret,
		       struct error *err)
{
	AUTO_JSON *root = NULL;
	int rc = bounded_json_load(f->config->data, f->config->len,
				   "image config", &root, err);
	int bad;

	if (rc < 0)
		return rc;
	bad = json_object_set_new(root, "rootfs",
				  json_pack("{s:s, s:[o]}", "type", "layers",
					    "diff_ids",
					    json_digest(f->diff_id)));
	/* Remove the history, which describes the old layers. */
	(void)json_object_del(root, "history");
	*ret = bad ? NULL : json_dumps(root, JSON_COMPACT);
	return *ret ? 0 : error_nomem(err);
}

static char *make_manifest(const struct flat_image *f,
			   const struct digest *config, size_t config_len)
{
	AUTO_JSON *root = json_pack(
		"{s:i, s:s, s:{s:s, s:o, s:I}, s:[{s:s, s:o, s:I, s:{s:o}}]}",
		"schemaVersion", 2, "mediaType", MANIFEST_TYPE, "config",
		"mediaType", CONFIG_TYPE, "digest", json_digest(config), "size",
		(json_int_t)config_len, "layers", "mediaType", LAYER_TYPE,
		"digest", json_digest(f->layer), "size",
		(json_int_t)f->layer_size, "annotations", ARTIFACT_ANNOTATION,
		json_digest(f->artifact));

	return root ? json_dumps(root, JSON_COMPACT) : NULL;
}

int flat_image_make(const struct flat_image *f, struct oci_manifest *ret,
		    struct error *err)
{
	AUTO_FREE char *config = NULL, *manifest = NULL;
	struct digest d;
	int rc = make_config(f, &config, err);

	if (rc == 0)
		rc = oci_put_bytes(f->store, config, strlen(config), &d, err);
	if (rc < 0)
		return rc;
	manifest = make_manifest(f, &d, strlen(config));
	if (!manifest || buf_puts(&ret->body, manifest) < 0 ||
	    digest_of(manifest, strlen(manifest), &ret->digest) < 0)
		return error_nomem(err);
	(void)snprintf(ret->media_type, sizeof(ret->media_type), "%s",
		       MANIFEST_TYPE);
	return 0;
}
