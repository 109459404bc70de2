// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/convert/index.h"

#include <errno.h>
#include <string.h>

#include "common/bounded_json.h"
#include "common/fs.h"
#include "common/json.h"
#include "common/temp_file.h"
#include "objects/oci_platform.h"

static int parse_entry(const json_t *m, struct index_entry *ret,
		       struct error *err)
{
	const json_t *p = json_object_get(m, "platform");
	const char *variant = json_text_of(p, "variant");
	int n = 0;

	*ret = (struct index_entry){
		.platform = "",
		.is_index =
			oci_media_type_is_index(json_text_of(m, "mediaType")),
	};
	if (p)
		n = snprintf(ret->platform, sizeof(ret->platform), "%s/%s%s%s",
			     json_text_of(p, "os"),
			     json_text_of(p, "architecture"),
			     *variant ? "/" : "", variant);
	if (n < 0 || (size_t)n >= sizeof(ret->platform))
		return error_set(err, EINVAL, "index: a platform is too long");
	return digest_parse(json_text_of(m, "digest"), &ret->digest, err);
}

/* Is the entry an image that runs on a platform?  Attestations have the platform "unknown"; an
 * artifactType does not tell, since an image may have one.  A variant with EROFS layers is not
 * converted but copied: nodes start the variant with ordinary layers. */
static bool is_image(const json_t *m)
{
	const json_t *p = json_object_get(m, "platform");
	const char *os = json_text_of(p, "os");

	return strcmp(os, "unknown") != 0 && !oci_platform_has_erofs(p) &&
	       (*os || *json_text_of(m, "artifactType") == '\0');
}

static int parse_list(const json_t *list, bool images, struct index_entry **ret,
		      size_t *ret_n, struct error *err)
{
	size_t count = json_array_size(list), n = 0;
	AUTO_FREE struct index_entry *entries = NULL;

	if (!json_is_array(list) || count > INDEX_ENTRIES_MAX)
		return error_set(err, EINVAL,
				 "index: 'manifests' is no list of at most %d",
				 INDEX_ENTRIES_MAX);
	entries = calloc(count + 1, sizeof(*entries));
	if (!entries)
		return error_nomem(err);
	for (size_t i = 0; i < count; i++) {
		const json_t *m = json_array_get(list, i);
		int rc;

		if (is_image(m) != images)
			continue;
		rc = parse_entry(m, &entries[n++], err);
		if (rc < 0)
			return rc;
	}
	*ret = steal_ptr(&entries);
	*ret_n = n;
	return 0;
}

static int parse_index(const void *json, size_t len, bool images,
		       struct index_entry **ret, size_t *ret_n,
		       struct error *err)
{
	json_t *root;
	int rc;

	if (len > OCI_MANIFEST_MAX)
		return error_set(err, EFBIG, "index: longer than %u bytes",
				 OCI_MANIFEST_MAX);
	rc = bounded_json_load(json, len, "index", &root, err);
	if (rc < 0)
		return rc;
	rc = parse_list(json_object_get(root, "manifests"), images, ret, ret_n,
			err);
	json_decref(root);
	return rc;
}

int index_parse(const void *json, size_t len, struct index_entry **ret,
		size_t *ret_n, struct error *err)
{
	return parse_index(json, len, true, ret, ret_n, err);
}

/* ------------------------------------------------------------------ nesting --- */

struct gathered {
	struct oci_store *store;
	struct index_entry *list;
	size_t n, looks;
};

static int gather_entries(struct gathered *g, const struct oci_manifest *index,
			  unsigned int depth, struct error *err);

static int gather_below(struct gathered *g, const struct digest *d,
			unsigned int depth, struct error *err)
{
	AUTO_FINI(oci_manifest) m = { .body = BUF_INIT };
	char ref[DIGEST_STR_MAX];
	int rc;

	if (depth == OCI_INDEX_DEPTH_MAX)
		return error_set(err, ELOOP,
				 "more than %d indexes in each other",
				 OCI_INDEX_DEPTH_MAX);
	digest_format(d, ref);
	rc = oci_get_manifest(g->store, ref, &m, err);
	if (rc == 0)
		rc = gather_entries(g, &m, depth, err);
	return rc;
}

static int gather_entries(struct gathered *g, const struct oci_manifest *index,
			  unsigned int depth, struct error *err)
{
	AUTO_FREE struct index_entry *list = NULL;
	size_t n = 0;
	int rc = index_parse(index->body.data, index->body.len, &list, &n, err);

	for (size_t i = 0; rc == 0 && i < n; i++) {
		if (g->looks++ == INDEX_ENTRIES_MAX)
			return error_set(err, E2BIG,
					 "index: more than %d images and "
					 "indexes in all",
					 INDEX_ENTRIES_MAX);
		if (list[i].is_index)
			rc = gather_below(g, &list[i].digest, depth + 1, err);
		else
			g->list[g->n++] = list[i];
	}
	return rc;
}

int index_images(struct oci_store *store, const struct oci_manifest *index,
		 struct index_entry **ret, size_t *ret_n, struct error *err)
{
	struct gathered g = { .store = store };
	int rc;

	g.list = calloc(INDEX_ENTRIES_MAX, sizeof(*g.list));
	if (!g.list)
		return error_nomem(err);
	rc = gather_entries(&g, index, 0, err);
	if (rc < 0) {
		free(g.list);
		return rc;
	}
	*ret = g.list;
	*ret_n = g.n;
	return 0;
}

/* ------------------------------------------------------------------ copying --- */

struct to_file {
	struct source_sink sink;
	int fd;
};

static int put_file(struct source_sink *s, uint64_t pos, const void *data,
		    size_t len, struct error *err)
{
	int rc = fs_pwrite_full(container_of(s, struct to_file, sink)->fd, data,
				len, pos);

	return rc < 0 ? fs_refuse_write(container_of(s, struct to_file, sink)
						->fd,
					rc, len, TEMP_CURE, err)
		      : 0;
}

static int copy_blob(struct oci_store *src, struct oci_store *dst,
		     const struct oci_descriptor *d, const char *temp_dir,
		     struct error *err)
{
	struct source_req req = { .len = d->size, .priority = SOURCE_COLD };
	struct to_file file = { .sink.put = put_file };
	AUTO(source) s = NULL;
	AUTO_CLOSE int fd = -1;
	bool has = false;
	int rc = oci_has_blob(dst, &d->digest, &has, err);

	if (rc < 0 || has)
		return rc;
	rc = oci_open_blob(src, &d->digest, d->size, &s, err);
	if (rc == 0)
		rc = temp_file(temp_dir, &fd, err);
	file.fd = fd;
	if (rc == 0 && d->size)
		rc = source_read(s, &req, &file.sink, err);
	/* oci_put_blob() checks the digest. */
	return rc < 0 ? rc
		      : oci_put_blob(dst, &d->digest, d->size, fd, NULL, err);
}

static int copy_manifest(struct oci_store *src, struct oci_store *dst,
			 const struct digest *d, const char *temp_dir,
			 struct error *err)
{
	AUTO_FINI(oci_manifest) m = { .body = BUF_INIT };
	struct oci_image image;
	char ref[DIGEST_STR_MAX];
	int rc;

	digest_format(d, ref);
	rc = oci_get_manifest(src, ref, &m, err);
	if (rc < 0)
		return rc;
	rc = oci_image_parse(m.body.data, m.body.len, &image, err);
	if (rc == 0) {
		rc = copy_blob(src, dst, &image.config, temp_dir, err);
		for (size_t i = 0; rc == 0 && i < image.n_layers; i++)
			rc = copy_blob(src, dst, &image.layers[i], temp_dir,
				       err);
		oci_image_fini(&image);
	}
	if (rc == 0)
		rc = oci_put_manifest(dst, NULL, m.media_type, m.body.data,
				      m.body.len, err);
	return rc;
}

int index_copy_others(struct oci_store *src, struct oci_store *dst,
		      const struct oci_manifest *index, const char *temp_dir,
		      struct error *err)
{
	AUTO_FREE struct index_entry *list = NULL;
	size_t n = 0;
	int rc = parse_index(index->body.data, index->body.len, false, &list,
			     &n, err);

	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = copy_manifest(src, dst, &list[i].digest, temp_dir, err);
	return rc;
}
