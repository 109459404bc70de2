// SPDX-License-Identifier: Apache-2.0
/*
 * Blobs and manifests as objects of a store, each named by its digest below one
 * folder; blobs that several such stores have may lie in a second one.  Nothing has a
 * tag: whoever uses it keeps the digests.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/bytes.h"
#include "objects/object_get.h"
#include "objects/oci_store.h"
#include "objects/store.h"

#define PIECE_BYTES (4 * MIB)

struct objects_store {
	struct oci_store base;
	struct object_store *objects; /* borrowed */
	struct object_store *own;     /* the same, when it is ours; or NULL */
	char *folder;
	char *shared; /* folder of blobs that are not in `folder`, or NULL */
};

/* "FOLDER/<hex>" */
static int format_name_in_folder(const char *folder, const struct digest *d,
				 struct buf *ret, struct error *err)
{
	char text[DIGEST_STR_MAX];

	digest_format(d, text);
	return buf_printf(ret, "%s/%s", folder, strchr(text, ':') + 1) < 0
		       ? error_nomem(err)
		       : 0;
}

/* The object of a blob that is this store's own. */
static int format_own_blob_name(const struct objects_store *s,
				const struct digest *d, struct buf *ret,
				struct error *err)
{
	return format_name_in_folder(s->folder, d, ret, err);
}

/* ------------------------------------------------------------------- reading --- */

struct object_source {
	struct source base;
	struct object *object;
};

static int object_source_read(struct source *src, const struct source_req *req,
			      struct source_sink *sink, struct error *err)
{
	struct object_source *s = container_of(src, struct object_source, base);
	uint64_t room = req->len < PIECE_BYTES ? req->len : PIECE_BYTES;
	AUTO_FREE char *piece = malloc(room);
	int rc = 0;

	if (!piece)
		return error_nomem(err);
	for (uint64_t done = 0; rc == 0 && done < req->len;) {
		struct object_range r = { .off = req->off + done,
					  .len = (size_t)room,
					  .buf = piece };

		if (pace_level(req->pace) == PACE_STOP)
			return error_set(err, ECANCELED, "not wanted any more");
		if (r.len > req->len - done)
			r.len = (size_t)(req->len - done);
		rc = object_read(s->object, &r, 1, req->deadline_ns, err);
		if (rc == 0) {
			pace_moves(req->pace);
			rc = sink->put(sink, r.off, piece, r.len, err);
		}
		done += r.len;
	}
	return rc;
}

static void object_source_free(struct source *src)
{
	struct object_source *s = container_of(src, struct object_source, base);

	object_close(s->object);
	free(s);
}

static const struct source_ops object_source_ops = {
	.name = "object",
	.read = object_source_read,
	.free = object_source_free,
};

/* In its own folder or the shared one; both are asked at once. */
static int open_object(const struct objects_store *s, const struct digest *d,
		       const char *name, struct object **ret, struct error *err)
{
	AUTO_BUF shared = BUF_INIT;
	bool is_shared;
	int rc = s->shared ? format_name_in_folder(s->shared, d, &shared, err)
			   : 0;

	if (rc < 0)
		return rc;
	if (!s->shared)
		return object_open(s->objects, name, ret, err);
	rc = object_open_first(s->objects, name, shared.data, &is_shared, ret,
			       err);
	/* A bucket that may not be listed refuses what is not there. */
	if (rc == -EACCES &&
	    object_open(s->objects, shared.data, ret, NULL) == 0)
		rc = 0;
	return rc;
}

static int objects_open_blob(struct oci_store *base, const struct digest *d,
			     uint64_t size, struct source **ret,
			     struct error *err)
{
	struct objects_store *s =
		container_of(base, struct objects_store, base);
	AUTO_FREE struct object_source *src = calloc(1, sizeof(*src));
	AUTO_BUF name = BUF_INIT;
	int rc = format_own_blob_name(s, d, &name, err);

	if (rc < 0 || !src)
		return error_nomem(err);
	rc = open_object(s, d, name.data, &src->object, err);
	if (rc < 0)
		return rc;
	src->base.size = object_opened_stat(src->object)->size;
	if (src->base.size != size) {
		rc = error_set(err, EBADMSG,
			       "%s: '%s' has %" PRIu64 " bytes instead of "
			       "%" PRIu64,
			       object_store_url(s->objects), name.data,
			       src->base.size, size);
		object_close(src->object);
		return rc;
	}
	src->base.ops = &object_source_ops;
	*ret = &steal_ptr(&src)->base;
	return 0;
}

static int find_blob_in_folder(const struct objects_store *s,
			       const char *folder, const struct digest *d,
			       bool *ret, uint64_t *ret_size, struct error *err)
{
	AUTO_BUF name = BUF_INIT;
	struct object_stat st;
	int rc = format_name_in_folder(folder, d, &name, err);

	if (rc == 0)
		rc = object_stat(s->objects, name.data, &st, err);
	if (rc < 0 && rc != -ENOENT)
		return rc;
	*ret = rc == 0;
	if (rc == 0)
		*ret_size = st.size;
	return 0;
}

static int objects_find_blob(struct oci_store *base, const struct digest *d,
			     bool *ret, uint64_t *ret_size, struct error *err)
{
	struct objects_store *s =
		container_of(base, struct objects_store, base);
	int rc = find_blob_in_folder(s, s->folder, d, ret, ret_size, err);

	if (s->shared && (rc == -EACCES || (rc == 0 && !*ret)))
		rc = find_blob_in_folder(s, s->shared, d, ret, ret_size, err);
	return rc;
}

static int objects_get_manifest(struct oci_store *base, const char *ref,
				struct oci_manifest *ret, struct error *err)
{
	struct objects_store *s =
		container_of(base, struct objects_store, base);
	AUTO_BUF name = BUF_INIT;
	struct object_stat st;
	int rc = 0;

	if (!ref || digest_parse(ref, &ret->digest, NULL) < 0)
		rc = error_set(err, ENOTSUP, "manifests have no tags here");
	if (rc == 0)
		rc = format_own_blob_name(s, &ret->digest, &name, err);
	if (rc == 0)
		rc = object_get(s->objects, name.data, OCI_MANIFEST_MAX,
				&ret->body, &st, err);
	return rc == -EFBIG ? error_set(err, EFBIG,
					"manifest %.80s is too long", ref)
			    : rc;
}

/* A small one, which lies in its own folder mostly. */
static int objects_get_blob(struct oci_store *base, const struct digest *d,
			    uint64_t size, struct buf *ret, struct error *err)
{
	struct objects_store *s =
		container_of(base, struct objects_store, base);
	AUTO_BUF name = BUF_INIT;
	struct object_stat st;
	int rc = format_own_blob_name(s, d, &name, err);

	if (rc == 0)
		rc = object_get(s->objects, name.data, size, ret, &st, err);
	if (s->shared && (rc == -ENOENT || rc == -EACCES)) {
		buf_reset(&name);
		rc = format_name_in_folder(s->shared, d, &name, err);
		if (rc == 0)
			rc = object_get(s->objects, name.data, size, ret, &st,
					err);
	}
	if (rc == -EFBIG || (rc == 0 && ret->len != size))
		return error_set(err, EBADMSG,
				 "%s: '%s' has other than %" PRIu64 " bytes",
				 object_store_url(s->objects), name.data, size);
	return rc;
}

/* ------------------------------------------------------------------- writing --- */

static int objects_put_blob(struct oci_store *base, const struct digest *d,
			    uint64_t size, int fd, struct oci_progress *p,
			    struct error *err)
{
	struct objects_store *s =
		container_of(base, struct objects_store, base);
	const struct object_put_options opts = { .size = size ? size : 1 };
	AUTO(object_put) put = NULL;
	AUTO_BUF name = BUF_INIT;
	bool is_there = false;
	uint64_t have;
	int rc = format_own_blob_name(s, d, &name, err);

	if (rc == 0)
		rc = find_blob_in_folder(s, s->folder, d, &is_there, &have,
					 err);
	if (rc < 0 || (is_there && have == size))
		return rc;
	rc = object_put_open(s->objects, name.data, &opts, &put, err);
	if (rc == 0)
		rc = object_put_fd(put, fd, size, err);
	if (rc == 0)
		rc = object_put_commit(put, NULL, err);
	if (rc == 0 && p && p->step(p, size, size) != 0)
		rc = error_set(err, ECANCELED, "stopped");
	return rc;
}

static int objects_put_manifest(struct oci_store *base, const char *ref,
				const char *media_type, const void *body,
				size_t len, struct error *err)
{
	struct digest named, d;
	int rc = 0;

	/* oci_put_manifest() has compared a digest with the body. */
	if (ref && digest_parse(ref, &named, NULL) < 0)
		rc = error_set(err, ENOTSUP, "manifests have no tags here");
	return rc < 0 ? rc : oci_put_bytes(base, body, len, &d, err);
}

static int objects_remove_manifest(struct oci_store *base,
				   const struct digest *d, struct error *err)
{
	struct objects_store *s =
		container_of(base, struct objects_store, base);
	AUTO_BUF name = BUF_INIT;
	int rc = format_own_blob_name(s, d, &name, err);

	return rc < 0 ? rc : object_delete(s->objects, name.data, NULL, err);
}

static int objects_list_tags(struct oci_store *base, size_t max, char ***ret,
			     size_t *ret_n, struct error *err)
{
	return error_set(err, ENOTSUP, "manifests have no tags here");
}

static int objects_list_referrers(struct oci_store *base,
				  const struct digest *d,
				  const char *artifact_type,
				  struct digest **ret, size_t *ret_n,
				  struct error *err)
{
	return error_set(err, ENOTSUP, "manifests have no referrers here");
}

static int objects_authorization(struct oci_store *base, const struct digest *d,
				 struct pace *pace, char **ret,
				 struct error *err)
{
	struct objects_store *s =
		container_of(base, struct objects_store, base);
	AUTO_BUF name = BUF_INIT;
	int rc = format_own_blob_name(s, d, &name, err);

	return rc < 0 ? rc
		      : object_store_authorization(s->objects, name.data, pace,
						   ret, err);
}

static void objects_free(struct oci_store *base)
{
	struct objects_store *s =
		container_of(base, struct objects_store, base);

	object_store_free(s->own);
	free(s->folder);
	free(s->shared);
	free(s);
}

static const struct oci_store_ops objects_ops = {
	.name = "store of objects",
	.get_manifest = objects_get_manifest,
	.open_blob = objects_open_blob,
	.get_blob = objects_get_blob,
	.find_blob = objects_find_blob,
	.put_blob = objects_put_blob,
	.put_manifest = objects_put_manifest,
	.remove_manifest = objects_remove_manifest,
	.list_tags = objects_list_tags,
	.list_referrers = objects_list_referrers,
	.authorization = objects_authorization,
	.free = objects_free,
};

int oci_objects_new(struct object_store *objects, const char *folder,
		    const char *shared, struct oci_store **ret,
		    struct error *err)
{
	struct objects_store *s = calloc(1, sizeof(*s));

	if (!s)
		return error_nomem(err);
	s->base.ops = &objects_ops;
	s->objects = objects;
	s->folder = strdup(folder);
	s->shared = shared ? strdup(shared) : NULL;
	if (!s->folder || (shared && !s->shared)) {
		objects_free(&s->base);
		return error_nomem(err);
	}
	*ret = &s->base;
	return 0;
}

int oci_objects_open(const char *url, const struct object_store_config *cfg,
		     const char *folder, const char *shared,
		     struct oci_store **ret, struct error *err)
{
	AUTO(object_store) objects = NULL;
	int rc = object_store_open(url, cfg, &objects, err);

	if (rc == 0)
		rc = oci_objects_new(objects, folder, shared, ret, err);
	if (rc == 0)
		container_of(*ret, struct objects_store, base)->own =
			steal_ptr(&objects);
	return rc;
}
