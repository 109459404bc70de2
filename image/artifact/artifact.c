// SPDX-License-Identifier: Apache-2.0
/*
 * The texts of an artifact: docs/formats/artifact.md.  No I/O in here; getting
 * artifacts from stores is in store.c.
 */
#include "common/json.h"
#include "image/artifact/artifact.h"
#include "blockstore/blockstore.h"
#include "common/base64.h"
#include "common/bounded_json.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"
#define PACKS_MAX 65536
#define CARRIED_MAX (32u << 10) /* bytes of a config: 400 layers */
#define REPLACES_LEN_MAX (ARTIFACTS_MAX * DIGEST_STR_MAX)

void artifact_fini(struct artifact *a)
{
	free(a->chain_ids);
	free(a->meta.annotations);
	free(a->map.annotations);
	parts_fini(&a->meta_parts);
	parts_fini(&a->map_parts);
	for (size_t i = 0; a->packs && i < a->n_packs; i++)
		free(a->packs[i].annotations);
	free(a->packs);
	free(a->replaces);
	buf_fini(&a->manifest_json);
	buf_fini(&a->config_json);
	buf_fini(&a->image_config);
	buf_fini(&a->evidence);
	memset(a, 0, sizeof(*a));
}

static bool digest_is_zero(const struct digest *d)
{
	static const struct digest zero;

	return digest_equal(d, &zero);
}

/* A descriptor whose annotation names the digests of the blob's parts, if it has parts. */
static json_t *descriptor_json_with_parts(const char *type,
					  const struct oci_descriptor *d,
					  const struct parts *parts)
{
	json_t *o = json_descriptor(type, &d->digest, d->size);
	AUTO_BUF text = BUF_INIT;

	if (!o || !parts->n)
		return o;
	if (parts_format(parts, &text, NULL) < 0 ||
	    json_object_set_new(o, "annotations",
				json_pack("{s:s}", PARTS_ANNOTATION,
					  text.data)) < 0) {
		json_decref(o);
		return NULL;
	}
	return o;
}

/* The descriptor of the config blob, with the blob itself in it ("data" of image-spec): a
 * node then saves a request. A config longer than CARRIED_MAX is not put in, since registries
 * take no manifest over 4 MiB. */
static json_t *config_descriptor_json(const struct buf *config)
{
	AUTO_BUF text = BUF_INIT;
	struct digest d;
	json_t *o;

	if (digest_of(config->data, config->len, &d) < 0)
		return NULL;
	o = json_descriptor(ARTIFACT_CONFIG_TYPE, &d, config->len);
	if (!o || config->len > CARRIED_MAX)
		return o;
	if (base64_encode(config->data, config->len, &text) < 0 ||
	    json_object_set_new(o, "data", json_string(text.data)) < 0) {
		json_decref(o);
		return NULL;
	}
	return o;
}

static const char *pack_type(const struct artifact *a, size_t i)
{
	return a->format == ARTIFACT_FORMAT_INDEX ? a->packs[i].media_type
						  : ARTIFACT_PACK_TYPE;
}

static json_t *content_json(const struct digest *d, uint64_t size)
{
	return json_pack("{s:o, s:I}", "digest", json_digest(d), "size",
			 (json_int_t)size);
}

/* Turn `root` into text; frees `root`. */
static int artifact_dump(json_t *root, struct buf *ret, struct error *err)
{
	AUTO_FREE char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;

	json_decref(root);
	if (!text || buf_puts(ret, text) < 0)
		return error_nomem(err);
	return 0;
}

int artifact_format_config(const struct artifact *a, struct buf *ret,
			   struct error *err)
{
	int format = a->format == ARTIFACT_FORMAT_INDEX ? ARTIFACT_FORMAT_INDEX
							: ARTIFACT_FORMAT;
	json_t *root, *chain_ids = json_array();
	int bad = 0;

	for (size_t i = 0; i < a->n_chain_ids; i++)
		bad |= json_array_append_new(chain_ids,
					     json_digest(&a->chain_ids[i]));
	root = json_pack("{s:i, s:s, s:o, s:o, s:o, s:I, s:I, s:I}", "format",
			 format, "chunking", a->chunking, "chainIds", chain_ids,
			 "metadata", content_json(&a->meta_raw, a->meta_size),
			 "blockmap", content_json(&a->map_raw, a->map_size),
			 "deviceSize", (json_int_t)a->device_size, "imageSize",
			 (json_int_t)a->image_size, "inodes",
			 (json_int_t)a->n_inodes);
	if (root && !digest_is_zero(&a->image))
		bad |= json_object_set_new(root, "image",
					   json_digest(&a->image));
	if (bad) {
		json_decref(root);
		return error_nomem(err);
	}
	return artifact_dump(root, ret, err);
}

int artifact_format_manifest(const struct artifact *a, const struct buf *config,
			     uint64_t image_manifest_size,
			     const char *image_media_type, struct buf *ret,
			     struct error *err)
{
	json_t *root, *layers = json_array();
	int bad = 0;

	bad |= json_array_append_new(
		layers, descriptor_json_with_parts(ARTIFACT_META_TYPE, &a->meta,
						   &a->meta_parts));
	bad |= json_array_append_new(
		layers, descriptor_json_with_parts(ARTIFACT_MAP_TYPE, &a->map,
						   &a->map_parts));
	for (size_t i = 0; i < a->n_packs; i++)
		bad |= json_array_append_new(layers,
					     json_descriptor(pack_type(a, i),
							     &a->packs[i]
								      .digest,
							     a->packs[i].size));
	root = json_pack("{s:i, s:s, s:s, s:o, s:o}", "schemaVersion", 2,
			 "mediaType", MANIFEST_TYPE, "artifactType",
			 ARTIFACT_TYPE, "config",
			 config_descriptor_json(config), "layers", layers);
	if (root && !digest_is_zero(&a->image))
		bad |= json_object_set_new(
			root, "subject",
			json_descriptor(image_media_type, &a->image,
					image_manifest_size));
	if (root && a->replaces)
		bad |= json_object_set_new(root, "annotations",
					   json_pack("{s:s}", ARTIFACT_REPLACES,
						     a->replaces));
	if (bad) {
		json_decref(root);
		return error_nomem(err);
	}
	return artifact_dump(root, ret, err);
}

/* ----------------------------------------------------------------- parsing --- */

static int get_size(const json_t *o, const char *key, uint64_t max,
		    uint64_t *ret, struct error *err)
{
	const json_t *v = json_object_get(o, key);

	if (!json_is_integer(v) || json_integer_value(v) < 0 ||
	    (uint64_t)json_integer_value(v) > max)
		return error_set(err, EINVAL,
				 "artifact: '%s' is not a number up to "
				 "%" PRIu64,
				 key, max);
	*ret = (uint64_t)json_integer_value(v);
	return 0;
}

static int get_digest(const json_t *o, const char *key, struct digest *ret,
		      struct error *err)
{
	const char *text = json_string_value(json_object_get(o, key));
	int rc;

	if (!text)
		return error_set(err, EINVAL, "artifact: '%s' is missing", key);
	rc = digest_parse(text, ret, err);
	return rc < 0 ? error_wrap(err, rc, "artifact: '%s'", key) : 0;
}

static int get_content(const json_t *root, const char *key, uint64_t max,
		       struct digest *ret, uint64_t *ret_size,
		       struct error *err)
{
	const json_t *o = json_object_get(root, key);
	int rc = get_digest(o, "digest", ret, err);

	if (rc == 0)
		rc = get_size(o, "size", max, ret_size, err);
	return rc < 0 ? error_wrap(err, rc, "'%s'", key) : 0;
}

static int get_chain_ids(const json_t *root, struct artifact *a,
			 struct error *err)
{
	const json_t *list = json_object_get(root, "chainIds");
	size_t n = json_array_size(list);

	if (n < 1 || n > ARTIFACT_CHAIN_IDS_MAX)
		return error_set(err, EINVAL,
				 "artifact: 'chainIds' has %zu entries, not 1 "
				 "to %d",
				 n, ARTIFACT_CHAIN_IDS_MAX);
	a->chain_ids = calloc(n, sizeof(*a->chain_ids));
	if (!a->chain_ids)
		return error_nomem(err);
	for (; a->n_chain_ids < n; a->n_chain_ids++) {
		const char *text =
			json_string_value(json_array_get(list, a->n_chain_ids));
		int rc;

		if (!text)
			return error_set(err, EINVAL,
					 "artifact: a chain id is not a text");
		rc = digest_parse(text, &a->chain_ids[a->n_chain_ids], err);
		if (rc < 0)
			return error_wrap(err, rc, "artifact: 'chainIds'");
	}
	return 0;
}

static int parse_format(const json_t *root, struct artifact *a,
			struct error *err)
{
	uint64_t format;
	int rc = get_size(root, "format", INT32_MAX, &format, err);

	if (rc < 0)
		return rc;
	if (format != ARTIFACT_FORMAT && format != ARTIFACT_FORMAT_INDEX)
		return error_set(err, ENOTSUP,
				 "artifact: format %" PRIu64 " is not known, "
				 "only %d and %d: a newer BootSeer wrote it",
				 format, ARTIFACT_FORMAT,
				 ARTIFACT_FORMAT_INDEX);
	a->format = (unsigned int)format;
	return 0;
}

static int parse_config(const json_t *root, struct artifact *a,
			struct error *err)
{
	const char *chunking =
		json_string_value(json_object_get(root, "chunking"));
	int rc;

	if (!chunking || strlen(chunking) >= sizeof(a->chunking))
		return error_set(err, EINVAL,
				 "artifact: 'chunking' is no name");
	strcpy(a->chunking, chunking);
	if (json_object_get(root, "image")) {
		rc = get_digest(root, "image", &a->image, err);
		if (rc < 0)
			return rc;
	}
	rc = get_chain_ids(root, a, err);
	if (rc == 0)
		rc = get_content(root, "metadata", ARTIFACT_META_MAX,
				 &a->meta_raw, &a->meta_size, err);
	if (rc == 0)
		rc = get_content(root, "blockmap", BLOCKMAP_BYTES_MAX,
				 &a->map_raw, &a->map_size, err);
	if (rc == 0)
		rc = get_size(root, "deviceSize", INT64_MAX, &a->device_size,
			      err);
	if (rc == 0)
		rc = get_size(root, "imageSize", INT64_MAX, &a->image_size,
			      err);
	if (rc == 0)
		rc = get_size(root, "inodes", INT64_MAX, &a->n_inodes, err);
	return rc;
}

static int copy_descriptor(const struct oci_descriptor *from, const char *type,
			   struct oci_descriptor *ret, struct error *err)
{
	if (strcmp(from->media_type, type) != 0)
		return error_set(err, EINVAL,
				 "artifact: a blob of type '%s' where '%s' "
				 "belongs",
				 from->media_type, type);
	*ret = *from;
	ret->annotations = NULL;
	return 0;
}

static int take_parts(const struct oci_descriptor *from, struct parts *ret,
		      struct error *err)
{
	AUTO_FREE char *text =
		oci_annotation(from->annotations, PARTS_ANNOTATION);
	int rc = text ? parts_parse(text, from->size, ret, err) : 0;

	return rc < 0 ? error_wrap(err, rc, "artifact: '%s'", from->media_type)
		      : 0;
}

/* Take the descriptors of the blobs: metadata, block map, packs. */
static int take_blobs(const struct oci_image *m, struct artifact *a,
		      struct error *err)
{
	int rc;

	if (strcmp(m->artifact_type, ARTIFACT_TYPE) != 0 &&
	    strcmp(m->config.media_type, ARTIFACT_CONFIG_TYPE) != 0)
		return error_set(err, EINVAL,
				 "not an artifact: its type is "
				 "'%s'",
				 m->artifact_type);
	if (m->n_layers < 2 || m->n_layers > PACKS_MAX + 2)
		return error_set(err, EINVAL, "artifact: %zu blobs",
				 m->n_layers);
	rc = copy_descriptor(&m->layers[0], ARTIFACT_META_TYPE, &a->meta, err);
	if (rc == 0)
		rc = copy_descriptor(&m->layers[1], ARTIFACT_MAP_TYPE, &a->map,
				     err);
	if (rc == 0)
		rc = take_parts(&m->layers[0], &a->meta_parts, err);
	if (rc == 0)
		rc = take_parts(&m->layers[1], &a->map_parts, err);
	if (rc < 0)
		return rc;
	a->packs = calloc(m->n_layers, sizeof(*a->packs));
	if (!a->packs)
		return error_nomem(err);
	for (size_t i = 2; i < m->n_layers; i++) {
		bool is_layer = a->format == ARTIFACT_FORMAT_INDEX;

		rc = copy_descriptor(&m->layers[i],
				     is_layer ? m->layers[i].media_type
					      : ARTIFACT_PACK_TYPE,
				     &a->packs[a->n_packs], err);
		if (rc < 0)
			return rc;
		a->n_packs++;
	}
	return 0;
}

/* The value is compared with every other artifact, so its length is bounded. */
static int take_replaces(const struct oci_image *m, struct artifact *a,
			 struct error *err)
{
	a->replaces = oci_annotation(m->annotations, ARTIFACT_REPLACES);
	if (a->replaces && strlen(a->replaces) > REPLACES_LEN_MAX)
		return error_set(err, EINVAL,
				 "artifact: it replaces more than %d",
				 ARTIFACTS_MAX);
	return 0;
}

static int parse_artifact(const struct oci_image *m, const json_t *config,
			  struct artifact *a, struct error *err)
{
	int rc = parse_format(config, a, err);

	if (rc == 0)
		rc = take_blobs(m, a, err);
	if (rc == 0)
		rc = take_replaces(m, a, err);
	if (rc == 0)
		rc = parse_config(config, a, err);
	if (rc == 0)
		rc = artifact_check_sizes(a, err);
	if (rc < 0)
		return rc;
	if (m->has_subject ? !digest_equal(&m->subject, &a->image)
			   : !digest_is_zero(&a->image))
		return error_set(err, EINVAL,
				 "artifact: its subject is not the image that "
				 "its config names");
	return 0;
}

int artifact_parse(const void *manifest, size_t manifest_len,
		   const void *config, size_t config_len, struct artifact *ret,
		   struct error *err)
{
	struct artifact a = { 0 };
	struct oci_image m;
	struct digest d;
	AUTO_JSON *root = NULL;
	int rc;

	if (manifest_len > OCI_MANIFEST_MAX || config_len > ARTIFACT_CONFIG_MAX)
		return error_set(err, EFBIG,
				 "artifact: its texts are longer "
				 "than allowed");
	rc = oci_image_parse(manifest, manifest_len, &m, err);
	if (rc < 0)
		return rc;
	rc = bounded_json_load(config, config_len, "artifact: its config",
			       &root, err);
	if (rc == 0)
		rc = parse_artifact(&m, root, &a, err);
	if (rc == 0 && (digest_of(config, config_len, &d) < 0 ||
			digest_of(manifest, manifest_len, &a.digest) < 0))
		rc = error_nomem(err);
	if (rc == 0 && !digest_equal(&d, &m.config.digest))
		rc = error_set(err, EBADMSG,
			       "artifact: its config is not the "
			       "one that its manifest names");
	if (rc == 0 &&
	    (buf_append(&a.manifest_json, manifest, manifest_len) < 0 ||
	     buf_append(&a.config_json, config, config_len) < 0))
		rc = error_nomem(err);
	oci_image_fini(&m);
	if (rc < 0)
		artifact_fini(&a);
	else
		*ret = a;
	return rc;
}
