// SPDX-License-Identifier: Apache-2.0
/*
 * The format of `docker save`: a tar with manifest.json or (since Docker 25) an OCI layout. For
 * manifest.json an OCI manifest is made here. A layer that is a plain tar is named by its diff id,
 * which is its digest if the archive is correct; readers check it like any digest.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "common/json.h"
#include "objects/archive_store.h"
#include "objects/oci_json.h"

#define LIST_MAX (4u << 20) /* bytes of manifest.json and index.json */
#define IMAGES_MAX 4096
#define PLACES_MAX 16384 /* layers and configs of all images */
#define PIECE (256u << 10)
#define MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"

/* ------------------------------------------------------------------ content --- */

static int load_file(const struct archive_store *a, const char *name,
		     size_t max, struct buf *ret, struct error *err)
{
	const struct archive_entry_place *p =
		archive_index_find(&a->index, name);
	int rc;

	if (!p)
		return error_set(err, ENOENT, "it has no file '%.200s'", name);
	if (p->size > max)
		return error_set(err, EFBIG, "'%.200s' is too large", name);
	if (buf_reserve(ret, p->size) < 0)
		return error_nomem(err);
	rc = fs_pread_full(a->fd, ret->data, p->size, p->off);
	if (rc < 0)
		return error_errno(err, -rc, "read '%.200s'", name);
	ret->len = p->size;
	ret->data[ret->len] = '\0';
	return 0;
}

static int add_extent_of_digest(struct archive_store *a, const struct digest *d,
				const struct archive_entry_place *p)
{
	struct archive_extent *grown =
		realloc(a->places, (a->n_places + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	a->places = grown;
	grown[a->n_places++] = (struct archive_extent){ .digest = *d,
							.off = p->off,
							.size = p->size };
	return 0;
}

/* Find a blob that manifest.json names, or a file blobs/sha256/HEX. */
int archive_find(const struct archive_store *a, const struct digest *d,
		 struct archive_extent *ret, struct error *err)
{
	const struct archive_entry_place *p;
	char name[DIGEST_STR_MAX];
	AUTO_BUF path = BUF_INIT;

	for (size_t i = 0; i < a->n_places; i++)
		if (digest_equal(&a->places[i].digest, d)) {
			*ret = a->places[i];
			return 0;
		}
	digest_format(d, name);
	if (buf_printf(&path, "blobs/sha256/%s", name + strlen("sha256:")) < 0)
		return error_nomem(err);
	p = archive_index_find(&a->index, path.data);
	if (!p)
		return error_set(err, ENOENT, "archive '%s' has no blob %s",
				 a->path, name);
	*ret = (struct archive_extent){ .digest = *d,
					.off = p->off,
					.size = p->size };
	return 0;
}

static int hash_archive_entry(const struct archive_store *a,
			      const struct archive_entry_place *p,
			      struct digest *ret, struct error *err)
{
	AUTO_FREE char *piece = malloc(PIECE);
	AUTO(hasher) h = hasher_new();

	if (!piece || !h)
		return error_nomem(err);
	for (uint64_t done = 0; done < p->size;) {
		size_t n = p->size - done < PIECE ? (size_t)(p->size - done)
						  : PIECE;
		int rc = fs_pread_full(a->fd, piece, n, p->off + done);

		if (rc == 0)
			rc = hasher_update(h, piece, n);
		if (rc < 0)
			return error_errno(err, -rc, "read '%.200s'", p->name);
		done += n;
	}
	return hasher_final(h, ret) < 0 ? error_nomem(err) : 0;
}

/* ------------------------------------------------------------ manifest.json --- */

static const char *layer_type(const char head[4])
{
	if (memcmp(head, "\x1f\x8b", 2) == 0)
		return "application/vnd.oci.image.layer.v1.tar+gzip";
	if (memcmp(head, "\x28\xb5\x2f\xfd", 4) == 0)
		return "application/vnd.oci.image.layer.v1.tar+zstd";
	return "application/vnd.oci.image.layer.v1.tar";
}

static int add_layer(struct archive_store *a, const char *name,
		     const struct digest *diff_id, json_t *list,
		     struct error *err)
{
	const struct archive_entry_place *p =
		archive_index_find(&a->index, name);
	struct digest d = *diff_id;
	char head[4] = "";
	const char *type;
	int rc = 0;

	if (a->n_places == PLACES_MAX)
		return error_set(err, EINVAL, "it has more than %d layers",
				 PLACES_MAX);
	if (!p)
		return error_set(err, ENOENT, "it has no layer '%.200s'", name);
	if (p->size >= sizeof(head) &&
	    fs_pread_full(a->fd, head, sizeof(head), p->off) < 0)
		return error_set(err, EIO, "read '%.200s'", name);
	type = layer_type(head);
	if (strchr(type, '+')) /* compressed: the diff id is that of the
	                        * unpacked layer */
		rc = hash_archive_entry(a, p, &d, err);
	if (rc < 0)
		return rc;
	if (add_extent_of_digest(a, &d, p) < 0 ||
	    json_array_append_new(list, json_descriptor(type, &d, p->size)) < 0)
		return error_nomem(err);
	return 0;
}

static int add_layers(struct archive_store *a, const json_t *names,
		      const struct buf *config, json_t *list, struct error *err)
{
	AUTO_FREE struct digest *ids = NULL;
	size_t n = 0;
	int rc = oci_config_diff_ids(config->data, config->len, &ids, &n, err);

	if (rc < 0)
		return rc;
	if (!json_is_array(names) || json_array_size(names) != n ||
	    n > PLACES_MAX)
		return error_set(err, EINVAL,
				 "manifest.json lists %zu layers, the image's "
				 "config %zu",
				 json_array_size(names), n);
	for (size_t i = 0; i < n && rc == 0; i++) {
		const char *name = json_string_value(json_array_get(names, i));

		rc = add_layer(a, name ? name : "", &ids[i], list, err);
	}
	return rc;
}

/* Make the manifest that a registry would have for this image. */
static int make_image_manifest(struct archive_store *a, const json_t *item,
			       struct archive_image *image, struct error *err)
{
	const char *name = json_string_value(json_object_get(item, "Config"));
	AUTO_JSON *list = json_array();
	AUTO_BUF config = BUF_INIT;
	AUTO_JSON *j = NULL;
	struct digest d;
	int rc = name ? load_file(a, name, OCI_CONFIG_MAX, &config, err)
		      : error_set(err, EINVAL, "manifest.json names no config");

	if (rc == 0 && digest_of(config.data, config.len, &d) < 0)
		rc = error_nomem(err);
	if (rc == 0)
		rc = add_layers(a, json_object_get(item, "Layers"), &config,
				list, err);
	if (rc == 0 &&
	    add_extent_of_digest(a, &d, archive_index_find(&a->index, name)) <
		    0)
		rc = error_nomem(err);
	if (rc < 0)
		return rc;
	j = json_pack(
		"{s:i, s:s, s:o, s:o}", "schemaVersion", 2, "mediaType",
		MANIFEST_TYPE, "config",
		json_descriptor("application/vnd.oci.image.config.v1+json", &d,
				config.len),
		"layers", steal_ptr(&list));
	image->made_up = json_dumps(j, JSON_COMPACT | JSON_PRESERVE_ORDER);
	if (!image->made_up || digest_of(image->made_up, strlen(image->made_up),
					 &image->digest) < 0)
		return error_nomem(err);
	return 0;
}

/* Append an image to be filled in; takes `names`. */
static struct archive_image *new_image(struct archive_store *a, json_t *names)
{
	struct archive_image *grown =
		realloc(a->images, (a->n_images + 1) * sizeof(*grown));

	if (!grown || !names) {
		if (grown)
			a->images = grown;
		json_decref(names);
		return NULL;
	}
	a->images = grown;
	grown[a->n_images] = (struct archive_image){ .names = names };
	return &grown[a->n_images++];
}

static int load_docker(struct archive_store *a, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	AUTO_JSON *list = NULL;
	int rc = load_file(a, "manifest.json", LIST_MAX, &text, err);

	if (rc < 0)
		return error_wrap(err, rc, "it is not of `docker save`");
	rc = bounded_json_load_array(text.data, text.len, "manifest.json",
				     &list, err);
	if (rc < 0)
		return rc;
	if (json_array_size(list) > IMAGES_MAX)
		rc = error_set(err, EINVAL, "more than %d images", IMAGES_MAX);
	for (size_t i = 0; i < json_array_size(list) && rc == 0; i++) {
		const json_t *item = json_array_get(list, i);
		const json_t *tags = json_object_get(item, "RepoTags");
		struct archive_image *image =
			new_image(a, json_is_array(tags) ? json_deep_copy(tags)
							 : json_array());

		rc = image ? make_image_manifest(a, item, image, err)
			   : error_nomem(err);
	}
	return rc;
}

/* --------------------------------------------------------------- index.json --- */

static json_t *names_of_index_entry(const json_t *entry)
{
	static const char *const keys[] = {
		"io.containerd.image.name",
		"org.opencontainers.image.ref.name",
	};
	const json_t *notes = json_object_get(entry, "annotations");
	AUTO_JSON *names = json_array();

	for (size_t i = 0; names && i < ARRAY_SIZE(keys); i++) {
		json_t *v = json_object_get(notes, keys[i]);

		if (json_is_string(v) && json_array_append(names, v) < 0)
			return NULL;
	}
	return steal_ptr(&names);
}

static int load_layout(struct archive_store *a, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	AUTO_JSON *j = NULL;
	const json_t *list;
	int rc = load_file(a, "index.json", LIST_MAX, &text, err);

	if (rc == 0)
		rc = bounded_json_load(text.data, text.len, "index.json", &j,
				       err);
	if (rc < 0)
		return rc;
	list = json_object_get(j, "manifests");
	if (!json_is_array(list) || json_array_size(list) > IMAGES_MAX)
		rc = error_set(err, EINVAL, "index.json lists no manifests");
	for (size_t i = 0; i < json_array_size(list) && rc == 0; i++) {
		const json_t *entry = json_array_get(list, i);
		struct archive_image *image =
			new_image(a, names_of_index_entry(entry));

		rc = image ? oci_json_digest(entry, "digest", &image->digest,
					     err)
			   : error_nomem(err);
	}
	return rc;
}

int archive_load(struct archive_store *a, struct error *err)
{
	int rc;

	a->fd = open(a->path, O_RDONLY | O_CLOEXEC);
	if (a->fd < 0)
		return error_set(err, errno, "open '%s': %s%s", a->path,
				 strerror(errno),
				 errno == ENOENT ? ": mend the path"
						 : error_root_hint(errno));
	rc = archive_index_load(a->fd, a->path, &a->index, err);
	if (rc < 0)
		return rc;
	if (archive_index_find(&a->index, "oci-layout") &&
	    archive_index_find(&a->index, "index.json"))
		rc = load_layout(a, err);
	else
		rc = load_docker(a, err);
	return rc < 0 ? error_wrap(err, rc, "archive '%s'", a->path) : 0;
}
