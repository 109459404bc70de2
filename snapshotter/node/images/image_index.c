// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/images/image_index.h"

#include <string.h>

#include "common/bounded_json.h"
#include "common/fs.h"
#include "common/registry_host.h"
#include "image/erofs/file_map.h"
#include "snapshotter/node/images/origin.h"

#define WORDS_MAX 1024 /* words of entry point and command together */

static int open_file(const struct image *i, const char *name,
		     const struct digest *want, struct map_file *ret,
		     struct error *err)
{
	AUTO_FREE char *path = image_path(i, name);
	int rc;

	if (!path)
		return error_nomem(err);
	rc = map_file_open(path, ret, err);
	return rc < 0 ? rc : map_file_check(ret, want, path, err);
}

int image_index_open(const struct image *i, struct image_index *ret,
		     struct error *err)
{
	const struct artifact *a = &i->artifact;
	int rc;

	*ret = (struct image_index)IMAGE_INDEX_INIT;
	rc = open_file(i, "blockmap", &a->map_raw, &ret->map_file, err);
	if (rc == 0)
		rc = open_file(i, "meta.erofs", &a->meta_raw, &ret->meta_file,
			       err);
	if (rc == 0)
		rc = blockmap_open(ret->map_file.data, ret->map_file.len,
				   &ret->map, err);
	if (rc == 0)
		rc = erofs_open(ret->meta_file.data, ret->meta_file.len,
				&ret->meta, err);
	if (rc == 0)
		rc = erofs_file_map_new(&ret->meta, &ret->files, err);
	if (rc < 0)
		image_index_close(ret);
	return rc;
}

void image_index_close(struct image_index *v)
{
	erofs_file_map_free(v->files);
	map_file_close(&v->map_file);
	map_file_close(&v->meta_file);
	*v = (struct image_index)IMAGE_INDEX_INIT;
}

/* ---------------------------------------------------------------- identity --- */

struct digest image_manifest(struct image *i)
{
	static const struct digest none;
	struct digest d = i->artifact.image;
	const char *at;
	size_t k;

	if (!digest_equal(&d, &none))
		return d;
	/* A flat image's artifact does not name the image's manifest; a reference by digest
	 * that led to it does. */
	images_lock(i->all);
	for (k = 0; k < i->state.names.n; k++) {
		at = strchr(i->state.names.v[k], '@');
		if (at && digest_parse(at + 1, &d, NULL) == 0)
			break;
	}
	if (k == i->state.names.n)
		d = i->artifact.digest;
	images_unlock(i->all);
	return d;
}

char *image_repo(const struct image *i)
{
	return origin_place(i->state.host, i->state.repo);
}

bool image_is_environment(const struct image *i)
{
	return registry_host_is_store(i->state.host);
}

/* ------------------------------------------------------------------ config --- */

static int fetch_config(struct origins *origins, struct image *i,
			struct buf *ret, struct error *err)
{
	struct oci_manifest m = { .body = BUF_INIT };
	struct oci_image image = { .n_layers = 0 };
	struct digest d = image_manifest(i);
	struct store_lease *lease = NULL;
	struct origin *origin = NULL;
	char text[DIGEST_STR_MAX];
	int rc;

	digest_format(&d, text);
	rc = origin_get(origins, i->state.host, i->state.repo,
			i->state.plain_http, &origin, err);
	if (rc == 0)
		rc = origin_lease(origin, &lease, err);
	if (rc == 0)
		rc = oci_get_manifest(lease->store, text, &m, err);
	if (rc == 0)
		rc = oci_image_parse(m.body.data, m.body.len, &image, err);
	if (rc == 0)
		rc = oci_get_blob(lease->store, &image.config.digest,
				  image.config.size, OCI_CONFIG_MAX, ret, err);
	oci_image_fini(&image);
	oci_manifest_fini(&m);
	store_lease_end(lease);
	origin_put(origin);
	return error_wrap(err, rc, "config of image %.12s", i->hex);
}

int image_config(struct origins *origins, struct image *i, struct buf *ret,
		 struct error *err)
{
	AUTO_FREE char *path = image_path(i, "image.json");
	int rc;

	if (!path)
		return error_nomem(err);
	if (fs_read_file(path, OCI_CONFIG_MAX, ret, NULL) == 0 && ret->len)
		return 0;
	buf_reset(ret);
	rc = fetch_config(origins, i, ret, err);
	/* The config can be fetched again, so a failure to keep it is
	 * ignored. */
	if (rc == 0)
		(void)!fs_replace_file(path, ret->data, ret->len, 0600, NULL);
	return rc;
}

static void add_words(const json_t *list, const char **words, size_t *n)
{
	size_t k;

	for (k = 0; k < json_array_size(list) && *n < WORDS_MAX; k++) {
		const char *w = json_string_value(json_array_get(list, k));

		if (w)
			words[(*n)++] = w;
	}
}

char *image_config_key(const char *config, size_t len)
{
	AUTO_JSON *root = NULL;
	const json_t *c;
	AUTO_FREE const char **words = calloc(WORDS_MAX, sizeof(*words));
	size_t n = 0;

	if (!words ||
	    bounded_json_load(config, len, "image config", &root, NULL) < 0)
		return NULL;
	c = json_object_get(root, "config");
	add_words(json_object_get(c, "Entrypoint"), words, &n);
	add_words(json_object_get(c, "Cmd"), words, &n);
	return trace_workload_key(words, n);
}
