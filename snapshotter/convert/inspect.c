// SPDX-License-Identifier: Apache-2.0
/* image_inspect(), image_list(), image_remove(). */
#include <errno.h>
#include <string.h>

#include "common/json.h"
#include "image/artifact/artifact.h"
#include "recorder/recorder.h"
#include "snapshotter/convert.h"
#include "snapshotter/convert/convert_priv.h"
#include "snapshotter/convert/index.h"

#define LIST_TAGS_MAX 10000
#define JSON_STYLE (JSON_INDENT(2) | JSON_PRESERVE_ORDER)

static json_t *blob_json(const struct oci_descriptor *d, uint64_t unpacked)
{
	return json_pack("{s:o, s:I, s:I}", "digest", json_digest(&d->digest),
			 "size", (json_int_t)d->size, "unpackedSize",
			 (json_int_t)unpacked);
}

static json_t *artifact_json(const struct artifact *a)
{
	json_t *packs = json_array(), *chain_ids = json_array();
	uint64_t stored = a->meta.size + a->map.size;

	for (size_t i = 0; i < a->n_packs; i++) {
		/* The layers of form index belong to the image, so their bytes do not count. */
		if (a->format != ARTIFACT_FORMAT_INDEX ||
		    strcmp(a->packs[i].media_type, ARTIFACT_WINDOWS_TYPE) == 0)
			stored += a->packs[i].size;
		(void)json_array_append_new(packs,
					    json_pack("{s:o, s:I}", "digest",
						      json_digest(
							      &a->packs[i]
								       .digest),
						      "size",
						      (json_int_t)a->packs[i]
							      .size));
	}
	for (size_t i = 0; i < a->n_chain_ids; i++)
		(void)json_array_append_new(chain_ids,
					    json_digest(&a->chain_ids[i]));
	return json_pack(
		"{s:o, s:i, s:s, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o}",
		"artifact", json_digest(&a->digest), "format", (int)a->format,
		"chunking", a->chunking, "inodes", (json_int_t)a->n_inodes,
		"imageSize", (json_int_t)a->image_size, "deviceSize",
		(json_int_t)a->device_size, "storedSize", (json_int_t)stored,
		"metadata", blob_json(&a->meta, a->meta_size), "blockmap",
		blob_json(&a->map, a->map_size), "packs", packs, "chainIds",
		chain_ids);
}

static json_t *time_json(int64_t at_s)
{
	char text[TRUST_TIME_MAX];

	trust_time_format(at_s, text);
	return at_s ? json_string(text) : json_null();
}

/* The statement of a signature, unchecked: only a list of keys could tell whether it is good. */
static json_t *signature_json(const struct buf *sig)
{
	struct trust_statement s;

	if (trust_is_cosign(sig->data, sig->len))
		return json_pack("{s:s}", "kind", "cosign");
	if (trust_decode(sig->data, sig->len, &s, NULL) < 0)
		return json_pack("{s:s}", "kind", "unknown");
	return json_pack("{s:s, s:s, s:o, s:s, s:o, s:o}", "kind", "bootseer",
			 "claim", trust_claim_name(s.claim), "key",
			 json_digest(&s.key), "repository", s.repository,
			 "notBefore", time_json(s.not_before_s), "notAfter",
			 time_json(s.not_after_s));
}

static int signatures_json(struct oci_store *store,
			   const struct digest *artifact, json_t **ret,
			   struct error *err)
{
	AUTO_JSON *list = json_array();
	struct trust_signatures all;
	int bad = 0, rc = trust_fetch(store, artifact, &all, err);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < all.n; i++)
		bad |= json_array_append_new(list, signature_json(&all.v[i]));
	trust_signatures_fini(&all);
	if (bad)
		return error_nomem(err);
	*ret = steal_ptr(&list);
	return 0;
}

static int dump_json(const json_t *root, char **ret, struct error *err)
{
	char *text = root ? json_dumps(root, JSON_STYLE) : NULL;

	if (!text)
		return error_nomem(err);
	*ret = text;
	return 0;
}

/* The image's other artifacts, for a user who has to choose. */
static json_t *others_json(const struct check_opened *o)
{
	json_t *list = json_array();

	for (size_t i = 0; i < o->all.n; i++)
		if (!digest_equal(&o->all.v[i], &o->artifact.digest))
			(void)json_array_append_new(list,
						    json_digest(&o->all.v[i]));
	return list;
}

static int inspect_opened(struct check_opened *o,
			  const struct check_options *opt, const char *name,
			  char **ret, struct error *err)
{
	AUTO_JSON *root = NULL;
	json_t *signatures = NULL;
	int rc = check_find(o, opt, NULL, err);

	if (rc == 0)
		rc = signatures_json(o->store, &o->artifact.digest, &signatures,
				     err);
	if (rc < 0)
		return rc;
	root = json_pack("{s:s, s:o, s:o}", "reference", name, "image",
			 json_digest(&o->image), "signatures", signatures);
	if (root &&
	    json_object_update_new(root, artifact_json(&o->artifact)) < 0)
		return error_nomem(err);
	if (root && !opt->artifact &&
	    json_object_set_new(root, "otherArtifacts", others_json(o)) < 0)
		return error_nomem(err);
	return dump_json(root, ret, err);
}

int image_inspect(const struct oci_ref *ref, const struct oci_config *cfg,
		  const char *platform, const struct digest *artifact,
		  char **ret, struct error *err)
{
	const struct check_options opt = { .config = *cfg,
					   .platform = platform,
					   .artifact = artifact };
	AUTO_FREE char *name = oci_ref_format(ref);
	struct check_opened o;
	int rc;

	if (!name)
		return error_nomem(err);
	rc = check_open(ref, &opt, &o, err);
	if (rc == 0)
		rc = inspect_opened(&o, &opt, name, ret, err);
	check_close(&o);
	return rc < 0 ? error_wrap(err, rc, "inspect %s", name) : 0;
}

/* ------------------------------------------------------------------- list --- */

static json_t *image_json(struct oci_store *store, const struct digest *image,
			  const char *platform)
{
	AUTO_JSON *o = json_pack("{s:o}", "image", json_digest(image));
	struct artifact a;
	int bad = 0;

	if (o && platform && *platform)
		bad |= json_object_set_new(o, "platform",
					   json_string(platform));
	if (o && artifact_find(store, image, &a, NULL) == 0) {
		bad |= json_object_set_new(o, "artifact",
					   json_digest(&a.digest));
		bad |= json_object_set_new(o, "imageSize",
					   json_integer(
						   (json_int_t)a.image_size));
		artifact_fini(&a);
	}
	return bad ? NULL : steal_ptr(&o);
}

static json_t *images_json(struct oci_store *store,
			   const struct oci_manifest *m)
{
	AUTO_FREE struct index_entry *entries = NULL;
	AUTO_JSON *images = json_array();
	size_t n = 0;
	int bad = 0;

	if (!oci_media_type_is_index(m->media_type))
		bad = json_array_append_new(images,
					    image_json(store, &m->digest,
						       NULL));
	else if (index_images(store, m, &entries, &n, NULL) < 0)
		n = 0;
	for (size_t i = 0; i < n; i++)
		bad |= json_array_append_new(images,
					     image_json(store,
							&entries[i].digest,
							entries[i].platform));
	return bad ? NULL : steal_ptr(&images);
}

/* Is the tag one that bootseer makes: referrers' fallback, flat artifacts, traces? */
static bool is_own_tag(const char *tag)
{
	return strncmp(tag, "sha256-", 7) == 0 ||
	       strncmp(tag, TRACE_TAG_PREFIX, strlen(TRACE_TAG_PREFIX)) == 0;
}

static int list_tag(struct oci_store *store, const char *tag, json_t *list,
		    struct error *err)
{
	AUTO_FINI(oci_manifest) m = { .body = BUF_INIT };
	int rc;

	if (is_own_tag(tag))
		return 0;
	rc = oci_get_manifest(store, tag, &m, err);
	if (rc == -ENOENT)
		return 0; /* the tag was removed since it was listed */
	if (rc < 0)
		return rc;
	if (json_array_append_new(list,
				  json_pack("{s:s, s:o}", "tag", tag, "images",
					    images_json(store, &m))) < 0)
		rc = error_nomem(err);
	return rc;
}

int image_list(const struct oci_ref *ref, const struct oci_config *cfg,
	       char **ret, struct error *err)
{
	AUTO_FREE char *name = oci_ref_format(ref);
	AUTO(oci_store) store = NULL;
	AUTO_JSON *list = json_array();
	char **tags = NULL;
	size_t n = 0;
	int rc = name && list ? oci_store_open(ref, cfg, false, &store, err)
			      : error_nomem(err);

	if (rc == 0)
		rc = oci_list_tags(store, LIST_TAGS_MAX, &tags, &n, err);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = list_tag(store, tags[i], list, err);
	for (size_t i = 0; i < n; i++)
		free(tags[i]);
	free(tags);
	if (rc < 0)
		return error_wrap(err, rc, "list %s", name ? name : "");
	return dump_json(list, ret, err);
}

/* ----------------------------------------------------------------- remove --- */

/* Remove the artifact that a flat image names. */
static int remove_named(struct oci_store *store, const struct digest *image,
			struct error *err)
{
	struct digest named;
	struct artifact a;
	int rc = artifact_find(store, image, &a, err);

	if (rc < 0)
		return rc;
	named = a.digest;
	artifact_fini(&a);
	return remove_artifact(store, &named, err);
}

int image_remove(const struct oci_ref *ref, const struct oci_config *cfg,
		 const char *platform, struct error *err)
{
	AUTO_FREE char *name = oci_ref_format(ref);
	AUTO_FREE struct digest *list = NULL;
	AUTO(oci_store) store = NULL;
	struct digest image;
	size_t n = 0;
	int rc;

	if (!name)
		return error_nomem(err);
	rc = oci_store_open(ref, cfg, false, &store, err);
	if (rc == 0)
		rc = oci_resolve(store, ref, platform, &image, err);
	if (rc == 0)
		rc = oci_list_referrers(store, &image, ARTIFACT_TYPE, &list, &n,
					err);
	if (rc == 0 && n == 0)
		rc = remove_named(store, &image, err);
	/* Remove all artifacts: nodes would use an older one next. */
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = remove_artifact(store, &list[i], err);
	return rc < 0 ? error_wrap(err, rc, "remove what was stored of %s",
				   name)
		      : 0;
}
