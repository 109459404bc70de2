// SPDX-License-Identifier: Apache-2.0
/*
 * What `docker save` writes: a tar with manifest.json, or (since Docker 25) with
 * an OCI layout inside.  Nothing is unpacked: blobs are ranges of the tar.  For
 * manifest.json an OCI manifest is made up; a layer that is a plain tar goes by
 * its diff id, which is its digest if the archive is right, and which readers
 * check as they check every digest.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "blockstore/archive_index.h"
#include "blockstore/oci_json.h"
#include "blockstore/oci_store.h"
#include "common/fs.h"

#define LIST_MAX (4u << 20) /* bytes of manifest.json and index.json */
#define IMAGES_MAX 4096
#define PLACES_MAX 16384 /* layers and configs of all images */
#define PIECE (256u << 10)
#define MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"

/* A blob that has a digest, and where it lies. */
struct place {
	struct digest digest;
	uint64_t off, size;
};

struct image {
	json_t *names; /* array of "repository:tag" */
	struct digest digest;
	char *made_up; /* the manifest, when the archive has none */
};

struct archive_store {
	struct oci_store base;
	int fd;
	char *path;
	struct archive_index index;
	struct place *places;
	size_t n_places;
	struct image *images;
	size_t n_images;
};

static struct archive_store *archive_of(struct oci_store *s)
{
	return container_of(s, struct archive_store, base);
}

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
		return error_set(err, -rc, "read '%.200s': %s", name,
				 strerror(-rc));
	ret->len = p->size;
	ret->data[ret->len] = '\0';
	return 0;
}

static int add_place(struct archive_store *a, const struct digest *d,
		     const struct archive_entry_place *p)
{
	struct place *grown =
		realloc(a->places, (a->n_places + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	a->places = grown;
	grown[a->n_places++] =
		(struct place){ .digest = *d, .off = p->off, .size = p->size };
	return 0;
}

/* A blob of manifest.json's kind, or a file blobs/sha256/HEX. */
static int find_place(const struct archive_store *a, const struct digest *d,
		      struct place *ret, struct error *err)
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
	*ret = (struct place){ .digest = *d, .off = p->off, .size = p->size };
	return 0;
}

static int hash_place(const struct archive_store *a,
		      const struct archive_entry_place *p, struct digest *ret,
		      struct error *err)
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
			return error_set(err, -rc, "read '%.200s': %s", p->name,
					 strerror(-rc));
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

static json_t *describe(const char *type, const struct digest *d, uint64_t size)
{
	char name[DIGEST_STR_MAX];

	digest_format(d, name);
	return json_pack("{s:s, s:s, s:I}", "mediaType", type, "digest", name,
			 "size", (json_int_t)size);
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
	if (strchr(type, '+')) /* a diff id is of what comes out */
		rc = hash_place(a, p, &d, err);
	if (rc < 0)
		return rc;
	if (add_place(a, &d, p) < 0 ||
	    json_array_append_new(list, describe(type, &d, p->size)) < 0)
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

/* The manifest that a registry would have for this image. */
static int make_up(struct archive_store *a, const json_t *item,
		   struct image *image, struct error *err)
{
	const char *name = json_string_value(json_object_get(item, "Config"));
	json_t *list = json_array();
	AUTO_BUF config = BUF_INIT;
	struct digest d;
	json_t *j;
	int rc = load_file(a, name ? name : "", OCI_CONFIG_MAX, &config, err);

	if (rc == 0 && digest_of(config.data, config.len, &d) < 0)
		rc = error_nomem(err);
	if (rc == 0)
		rc = add_layers(a, json_object_get(item, "Layers"), &config,
				list, err);
	if (rc == 0 &&
	    add_place(a, &d, archive_index_find(&a->index, name)) < 0)
		rc = error_nomem(err);
	if (rc < 0) {
		json_decref(list);
		return rc;
	}
	j = json_pack("{s:i, s:s, s:o, s:o}", "schemaVersion", 2, "mediaType",
		      MANIFEST_TYPE, "config",
		      describe("application/vnd.oci.image.config.v1+json", &d,
			       config.len),
		      "layers", list);
	image->made_up = json_dumps(j, JSON_COMPACT | JSON_PRESERVE_ORDER);
	json_decref(j);
	if (!image->made_up || digest_of(image->made_up, strlen(image->made_up),
					 &image->digest) < 0)
		return error_nomem(err);
	return 0;
}

/* An image to fill in; its names are taken. */
static struct image *new_image(struct archive_store *a, json_t *names)
{
	struct image *grown =
		realloc(a->images, (a->n_images + 1) * sizeof(*grown));

	if (!grown || !names) {
		if (grown)
			a->images = grown;
		json_decref(names);
		return NULL;
	}
	a->images = grown;
	grown[a->n_images] = (struct image){ .names = names };
	return &grown[a->n_images++];
}

static int load_docker(struct archive_store *a, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	json_t *list;
	int rc = load_file(a, "manifest.json", LIST_MAX, &text, err);

	if (rc < 0)
		return error_wrap(err, rc, "it is not of `docker save`");
	rc = oci_json_load_array(text.data, text.len, "manifest.json", &list,
				 err);
	if (rc < 0)
		return rc;
	if (json_array_size(list) > IMAGES_MAX)
		rc = error_set(err, EINVAL, "more than %d images", IMAGES_MAX);
	for (size_t i = 0; i < json_array_size(list) && rc == 0; i++) {
		const json_t *item = json_array_get(list, i);
		const json_t *tags = json_object_get(item, "RepoTags");
		struct image *image =
			new_image(a, json_is_array(tags) ? json_deep_copy(tags)
							 : json_array());

		rc = image ? make_up(a, item, image, err) : error_nomem(err);
	}
	json_decref(list);
	return rc;
}

/* --------------------------------------------------------------- index.json --- */

static json_t *names_of(const json_t *entry)
{
	static const char *const keys[] = {
		"io.containerd.image.name",
		"org.opencontainers.image.ref.name",
	};
	const json_t *notes = json_object_get(entry, "annotations");
	json_t *names = json_array();

	for (size_t i = 0; names && i < ARRAY_SIZE(keys); i++) {
		json_t *v = json_object_get(notes, keys[i]);

		if (json_is_string(v) && json_array_append(names, v) < 0) {
			json_decref(names);
			return NULL;
		}
	}
	return names;
}

static int load_layout(struct archive_store *a, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	const json_t *list;
	json_t *j;
	int rc = load_file(a, "index.json", LIST_MAX, &text, err);

	if (rc == 0)
		rc = oci_json_load(text.data, text.len, "index.json", &j, err);
	if (rc < 0)
		return rc;
	list = json_object_get(j, "manifests");
	if (!json_is_array(list) || json_array_size(list) > IMAGES_MAX)
		rc = error_set(err, EINVAL, "index.json lists no manifests");
	for (size_t i = 0; i < json_array_size(list) && rc == 0; i++) {
		const json_t *entry = json_array_get(list, i);
		struct image *image = new_image(a, names_of(entry));

		rc = image ? oci_json_digest(entry, "digest", &image->digest,
					     err)
			   : error_nomem(err);
	}
	json_decref(j);
	return rc;
}

/* -------------------------------------------------------------------- reads --- */

/* Docker writes short names in full: app:1 is docker.io/library/app:1. */
static bool name_matches(const char *have, const char *want)
{
	static const char *const prefixes[] = { "", "docker.io/",
						"docker.io/library/" };

	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
		size_t len = strlen(prefixes[i]);

		if ((strncmp(have, prefixes[i], len) == 0 &&
		     strcmp(have + len, want) == 0) ||
		    (strncmp(want, prefixes[i], len) == 0 &&
		     strcmp(want + len, have) == 0))
			return true;
	}
	return false;
}

static bool image_is(const struct image *image, const char *ref)
{
	for (size_t i = 0; i < json_array_size(image->names); i++) {
		const char *name =
			json_string_value(json_array_get(image->names, i));

		if (name && name_matches(name, ref))
			return true;
	}
	return false;
}

static const struct image *find_image(const struct archive_store *a,
				      const char *ref)
{
	struct digest d;

	if (!ref)
		return a->n_images == 1 ? &a->images[0] : NULL;
	for (size_t i = 0; i < a->n_images; i++)
		if ((digest_parse(ref, &d, NULL) == 0 &&
		     digest_equal(&a->images[i].digest, &d)) ||
		    image_is(&a->images[i], ref))
			return &a->images[i];
	return NULL;
}

static int no_image(const struct archive_store *a, const char *ref,
		    struct error *err)
{
	AUTO_BUF all = { .limit = ERROR_MSG_MAX / 2 };
	bool full = false;

	for (size_t i = 0; i < a->n_images; i++)
		for (size_t k = 0; k < json_array_size(a->images[i].names);
		     k++) {
			const char *name = json_string_value(
				json_array_get(a->images[i].names, k));

			/* What does not fit in the message is left out. */
			if (name && !full)
				full = buf_printf(&all, "%s%s",
						  all.len ? ", " : "",
						  name) < 0;
		}
	if (!ref)
		return error_set(err, ENOENT,
				 "archive '%s' holds %zu images, name one of: "
				 "%s",
				 a->path, a->n_images,
				 all.data ? all.data : "(none has a name)");
	return error_set(err, ENOENT,
			 "archive '%s' has no image '%.128s', but "
			 "%s",
			 a->path, ref, all.data ? all.data : "none");
}

static int read_place(const struct archive_store *a, const struct place *p,
		      struct buf *ret, struct error *err)
{
	int rc;

	if (p->size > OCI_MANIFEST_MAX)
		return error_set(err, EFBIG, "a manifest is too large");
	if (buf_reserve(ret, p->size) < 0)
		return error_nomem(err);
	rc = fs_pread_full(a->fd, ret->data, p->size, p->off);
	if (rc < 0)
		return error_set(err, -rc, "read '%s': %s", a->path,
				 strerror(-rc));
	ret->len = p->size;
	ret->data[ret->len] = '\0';
	return 0;
}

static int archive_get_manifest(struct oci_store *s, const char *ref,
				struct oci_manifest *ret, struct error *err)
{
	struct archive_store *a = archive_of(s);
	const struct image *image = find_image(a, ref);
	struct place p;
	int rc;

	if (image && image->made_up) {
		ret->digest = image->digest;
		(void)snprintf(ret->media_type, sizeof(ret->media_type), "%s",
			       MANIFEST_TYPE);
		return buf_puts(&ret->body, image->made_up) < 0
			       ? error_nomem(err)
			       : 0;
	}
	if (image)
		ret->digest = image->digest;
	else if (!ref || digest_parse(ref, &ret->digest, NULL) < 0)
		return no_image(a, ref, err);
	rc = find_place(a, &ret->digest, &p, err);
	if (rc == 0)
		rc = read_place(a, &p, &ret->body, err);
	if (rc < 0)
		return rc;
	return oci_json_media_type(ret->body.data, ret->body.len, NULL,
				   ret->media_type, sizeof(ret->media_type),
				   err);
}

struct range_source {
	struct source base;
	int fd;
	uint64_t start;
};

static int range_read(struct source *s, const struct source_req *req,
		      struct source_sink *sink, struct error *err)
{
	struct range_source *r = container_of(s, struct range_source, base);
	size_t room = req->len < PIECE ? (size_t)req->len : PIECE;
	uint64_t off = req->off, end = req->off + req->len;
	AUTO_FREE char *piece = malloc(room ? room : 1);
	int rc = piece ? 0 : error_nomem(err);

	while (rc == 0 && off < end) {
		size_t n = end - off < room ? (size_t)(end - off) : room;

		rc = fs_pread_full(r->fd, piece, n, r->start + off);
		if (rc < 0)
			return error_set(err, -rc, "read the archive: %s",
					 strerror(-rc));
		rc = sink->put(sink, off, piece, n, err);
		off += n;
	}
	return rc;
}

static void range_free(struct source *s)
{
	struct range_source *r = container_of(s, struct range_source, base);

	(void)close(r->fd);
	free(r);
}

static const struct source_ops range_ops = {
	.name = "archive",
	.read = range_read,
	.free = range_free,
};

static int archive_open_blob(struct oci_store *s, const struct digest *d,
			     uint64_t size, struct source **ret,
			     struct error *err)
{
	struct archive_store *a = archive_of(s);
	AUTO_FREE struct range_source *r = NULL;
	char name[DIGEST_STR_MAX];
	struct place p;
	int rc = find_place(a, d, &p, err);

	if (rc < 0)
		return rc;
	digest_format(d, name);
	if (p.size != size)
		return error_set(err, EBADMSG,
				 "archive '%s': blob %s has %llu bytes, its "
				 "descriptor says %llu",
				 a->path, name, (unsigned long long)p.size,
				 (unsigned long long)size);
	r = calloc(1, sizeof(*r));
	if (!r)
		return error_nomem(err);
	r->fd = fcntl(a->fd, F_DUPFD_CLOEXEC, 0);
	if (r->fd < 0)
		return error_set(err, errno, "archive '%s': %s", a->path,
				 strerror(errno));
	r->base.ops = &range_ops;
	r->base.size = size;
	r->start = p.off;
	*ret = &steal_ptr(&r)->base;
	return 0;
}

static int archive_has_blob(struct oci_store *s, const struct digest *d,
			    bool *ret, struct error *err)
{
	struct place p;
	int rc = find_place(archive_of(s), d, &p, err);

	if (rc < 0 && rc != -ENOENT)
		return rc;
	*ret = rc == 0;
	return 0;
}

static int archive_list_tags(struct oci_store *s, size_t max, char ***ret,
			     size_t *ret_n, struct error *err)
{
	struct archive_store *a = archive_of(s);
	size_t n = 0, room = 1;
	char **tags;

	for (size_t i = 0; i < a->n_images; i++)
		room += json_array_size(a->images[i].names);
	tags = calloc(room, sizeof(*tags));
	if (!tags)
		return error_nomem(err);
	for (size_t i = 0; i < a->n_images; i++)
		for (size_t k = 0; k < json_array_size(a->images[i].names);
		     k++) {
			const char *name = json_string_value(
				json_array_get(a->images[i].names, k));

			if (!name || n == max)
				continue;
			tags[n] = strdup(name);
			n += tags[n] != NULL;
		}
	*ret = tags;
	*ret_n = n;
	return 0;
}

/* `docker save` keeps no referrers. */
static int archive_list_referrers(struct oci_store *s, const struct digest *d,
				  const char *artifact_type,
				  struct digest **ret, size_t *ret_n,
				  struct error *err)
{
	(void)s;
	(void)d;
	(void)artifact_type;
	*ret = calloc(1, sizeof(**ret));
	*ret_n = 0;
	return *ret ? 0 : error_nomem(err);
}

/* ------------------------------------------------------------------- writes --- */

static int read_only(struct oci_store *s, struct error *err)
{
	return error_set(err, EROFS,
			 "'%s' is a docker archive, which can only be read: "
			 "write to docker:// or oci:",
			 archive_of(s)->path);
}

static int archive_put_blob(struct oci_store *s, const struct digest *d,
			    uint64_t size, int fd, struct oci_progress *p,
			    struct error *err)
{
	return read_only(s, err);
}

static int archive_put_manifest(struct oci_store *s, const char *ref,
				const char *media_type, const void *body,
				size_t len, struct error *err)
{
	return read_only(s, err);
}

static int archive_remove_manifest(struct oci_store *s, const struct digest *d,
				   struct error *err)
{
	return read_only(s, err);
}

/* --------------------------------------------------------------------- open --- */

static void archive_store_free(struct oci_store *s)
{
	struct archive_store *a = archive_of(s);

	for (size_t i = 0; i < a->n_images; i++) {
		json_decref(a->images[i].names);
		free(a->images[i].made_up);
	}
	free(a->images);
	free(a->places);
	archive_index_fini(&a->index);
	if (a->fd >= 0)
		(void)close(a->fd);
	free(a->path);
	free(a);
}

static const struct oci_store_ops archive_ops = {
	.name = "docker-archive",
	.get_manifest = archive_get_manifest,
	.open_blob = archive_open_blob,
	.has_blob = archive_has_blob,
	.put_blob = archive_put_blob,
	.put_manifest = archive_put_manifest,
	.remove_manifest = archive_remove_manifest,
	.list_tags = archive_list_tags,
	.list_referrers = archive_list_referrers,
	.free = archive_store_free,
};

static int load(struct archive_store *a, struct error *err)
{
	int rc;

	a->fd = open(a->path, O_RDONLY | O_CLOEXEC);
	if (a->fd < 0)
		return error_set(err, errno, "open '%s': %s", a->path,
				 strerror(errno));
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

int oci_archive_new(const struct oci_ref *ref, const struct oci_config *cfg,
		    bool create, struct oci_store **ret, struct error *err)
{
	struct archive_store *a = calloc(1, sizeof(*a));
	int rc;

	(void)cfg;
	(void)create;
	if (!a)
		return error_nomem(err);
	a->base.ops = &archive_ops;
	a->fd = -1;
	a->path = strdup(ref->repo);
	rc = a->path ? load(a, err) : error_nomem(err);
	if (rc < 0) {
		archive_store_free(&a->base);
		return rc;
	}
	*ret = &a->base;
	return 0;
}
