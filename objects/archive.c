// SPDX-License-Identifier: Apache-2.0
/* Docker archives as read-only image stores.  Nothing is unpacked: blobs are
 * ranges of the tar. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "objects/archive_store.h"
#include "objects/oci_json.h"

#define PIECE (256u << 10)
#define MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"

static struct archive_store *archive_of(struct oci_store *s)
{
	return container_of(s, struct archive_store, base);
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

static bool image_has_name(const struct archive_image *image, const char *ref)
{
	for (size_t i = 0; i < json_array_size(image->names); i++) {
		const char *name =
			json_string_value(json_array_get(image->names, i));

		if (name && name_matches(name, ref))
			return true;
	}
	return false;
}

static const struct archive_image *find_image(const struct archive_store *a,
					      const char *ref)
{
	struct digest d;

	if (!ref)
		return a->n_images == 1 ? &a->images[0] : NULL;
	for (size_t i = 0; i < a->n_images; i++)
		if ((digest_parse(ref, &d, NULL) == 0 &&
		     digest_equal(&a->images[i].digest, &d)) ||
		    image_has_name(&a->images[i], ref))
			return &a->images[i];
	return NULL;
}

static int refuse_image_choice(const struct archive_store *a, const char *ref,
			       struct error *err)
{
	AUTO_BUF all = { .limit = ERROR_MSG_MAX / 2 };
	bool full = false;

	for (size_t i = 0; i < a->n_images; i++)
		for (size_t k = 0; k < json_array_size(a->images[i].names);
		     k++) {
			const char *name = json_string_value(
				json_array_get(a->images[i].names, k));

			/* Names that the message has no room for are left out. */
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

static int read_extent(const struct archive_store *a,
		       const struct archive_extent *p, struct buf *ret,
		       struct error *err)
{
	int rc;

	if (p->size > OCI_MANIFEST_MAX)
		return error_set(err, EFBIG, "a manifest is too large");
	if (buf_reserve(ret, p->size) < 0)
		return error_nomem(err);
	rc = fs_pread_full(a->fd, ret->data, p->size, p->off);
	if (rc < 0)
		return error_errno(err, -rc, "read '%s'", a->path);
	ret->len = p->size;
	ret->data[ret->len] = '\0';
	return 0;
}

static int archive_get_manifest(struct oci_store *s, const char *ref,
				struct oci_manifest *ret, struct error *err)
{
	struct archive_store *a = archive_of(s);
	const struct archive_image *image = find_image(a, ref);
	struct archive_extent p;
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
		return refuse_image_choice(a, ref, err);
	rc = archive_find(a, &ret->digest, &p, err);
	if (rc == 0)
		rc = read_extent(a, &p, &ret->body, err);
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
			return error_errno(err, -rc, "read the archive");
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
	struct archive_extent p;
	int rc = archive_find(a, d, &p, err);

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
		return error_errno(err, errno, "archive '%s'", a->path);
	r->base.ops = &range_ops;
	r->base.size = size;
	r->start = p.off;
	*ret = &steal_ptr(&r)->base;
	return 0;
}

static int archive_find_blob(struct oci_store *s, const struct digest *d,
			     bool *ret, uint64_t *ret_size, struct error *err)
{
	struct archive_extent p;
	int rc = archive_find(archive_of(s), d, &p, err);

	if (rc < 0 && rc != -ENOENT)
		return rc;
	*ret = rc == 0;
	if (*ret)
		*ret_size = p.size;
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

static int refuse_write(struct oci_store *s, struct error *err)
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
	return refuse_write(s, err);
}

static int archive_put_manifest(struct oci_store *s, const char *ref,
				const char *media_type, const void *body,
				size_t len, struct error *err)
{
	return refuse_write(s, err);
}

static int archive_remove_manifest(struct oci_store *s, const struct digest *d,
				   struct error *err)
{
	return refuse_write(s, err);
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
	fd_close(a->fd);
	free(a->path);
	free(a);
}

static const struct oci_store_ops archive_ops = {
	.name = "docker-archive",
	.get_manifest = archive_get_manifest,
	.open_blob = archive_open_blob,
	.find_blob = archive_find_blob,
	.put_blob = archive_put_blob,
	.put_manifest = archive_put_manifest,
	.remove_manifest = archive_remove_manifest,
	.list_tags = archive_list_tags,
	.list_referrers = archive_list_referrers,
	.free = archive_store_free,
};

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
	rc = a->path ? archive_load(a, err) : error_nomem(err);
	if (rc < 0) {
		archive_store_free(&a->base);
		return rc;
	}
	*ret = &a->base;
	return 0;
}
