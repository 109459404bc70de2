// SPDX-License-Identifier: Apache-2.0
/*
 * Writing to a registry (distribution-spec 1.1, Push): blobs in chunks that go
 * on where a cut left them, manifests, and the tag that lists referrers where
 * the registry does not.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "objects/oci_json.h"
#include "objects/oci_registry.h"

#define CHUNK ((uint64_t)16 << 20)
#define REFERRER_TRIES 5
#define GONE_LOOKS 64 /* last entries of a list, looked for after a refusal */
#define NOTES_MAX OCI_NOTE_MAX /* bytes of the annotations of an entry */
#define INDEX_TYPE "application/vnd.oci.image.index.v1+json"

/* --------------------------------------------------------------- uploads --- */

struct blob_upload {
	struct registry *r;
	const char *what;
	const char *digest;
	char *location; /* of the session; absolute */
	uint64_t size;
	uint64_t done;  /* bytes the registry has */
	uint64_t chunk; /* bytes sent at once */
	int fd;
	struct oci_progress *progress;
	struct http_response resp; /* to the last PATCH or PUT */
};

/* Locations are absolute URLs, or paths from the root of the host. */
static int set_location(struct blob_upload *u, const struct http_response *resp,
			struct error *err)
{
	AUTO_FREE char *to = http_header(resp, "location");
	AUTO_BUF b = BUF_INIT;
	const char *host_end;

	if (!to)
		return error_set(err, EPROTO,
				 "%s: the registry's answer has no Location",
				 u->what);
	if (to[0] == '/') {
		host_end = strstr(u->r->url, "/v2/");
		if (buf_append(&b, u->r->url, (size_t)(host_end - u->r->url)) <
		    0)
			return error_nomem(err);
	}
	if (buf_puts(&b, to) < 0)
		return error_nomem(err);
	free(u->location);
	u->location = buf_steal(&b);
	return u->location ? 0 : error_nomem(err);
}

static int begin_upload(struct blob_upload *u, struct error *err)
{
	AUTO_FINI(http_response) resp = HTTP_RESPONSE_INIT;
	AUTO_FREE char *least = NULL;
	struct registry_request req = {
		.http = { .method = "POST", .url = "/blobs/uploads/" },
		.what = u->what,
	};
	uint64_t min;
	int rc = registry_do(u->r, &req, &resp, err);

	if (rc == 0)
		rc = set_location(u, &resp, err);
	if (rc == 0)
		least = http_header(&resp, "oci-chunk-min-length");
	min = least ? strtoull(least, NULL, 10) : 0;
	u->chunk = min > CHUNK ? min : CHUNK;
	u->done = 0;
	return rc;
}

static int on_sent(void *arg, uint64_t n)
{
	struct blob_upload *u = arg;

	return u->progress
		       ? u->progress->step(u->progress, u->done + n, u->size)
		       : 0;
}

/* After a cut: how much has the registry?  "Range: 0-N" (inclusive).  Whatever
 * is wrong with the answer, the cure is to begin anew. */
static int ask_state(struct blob_upload *u, struct error *err)
{
	AUTO_FINI(http_response) resp = HTTP_RESPONSE_INIT;
	struct registry_request req = {
		.http = { .method = "GET", .url = u->location },
		.what = u->what,
	};
	AUTO_FREE char *range = NULL;
	uint64_t last = 0;
	int rc = registry_do(u->r, &req, &resp, err);

	if (rc == 0) {
		range = http_header(&resp, "range");
		rc = set_location(u, &resp, err);
	}
	/* "0-0" is what an empty session says too. */
	if (rc == 0 && (!range ||
			(sscanf(range, "bytes=0-%" SCNu64, &last) != 1 &&
			 sscanf(range, "0-%" SCNu64, &last) != 1) ||
			last == 0 || last >= u->size))
		rc = error_set(err, EPROTO,
			       "%s: the registry's upload state is '%.60s'",
			       u->what, range ? range : "");
	if (rc == 0)
		u->done = last + 1;
	return rc;
}

/* Send one chunk, without a retry of its own: a retry must first ask the state of the
 * upload. */
static int send_chunk(struct blob_upload *u, struct error *err)
{
	uint64_t left = u->size - u->done;
	uint64_t len = left < u->chunk ? left : u->chunk;
	char range[80];
	const char *const headers[] = {
		"Content-Type: application/octet-stream", range, NULL
	};
	struct registry_request req = {
		.http = { .method = "PATCH",
			  .url = u->location,
			  .headers = headers,
			  .body_fd = u->fd,
			  .body_off = u->done,
			  .body_len = len,
			  .sent = on_sent,
			  .sent_arg = u },
		.what = u->what,
	};
	int rc;

	(void)snprintf(range, sizeof(range),
		       "Content-Range: %" PRIu64 "-%" PRIu64, u->done,
		       u->done + len - 1);
	rc = registry_try(u->r, &req, &u->resp, err);
	if (rc == 0)
		rc = set_location(u, &u->resp, err);
	if (rc == 0)
		u->done += len;
	return rc;
}

/* The last request of a session, with what was not sent yet as its body.  When
 * its answer is lost the session is gone, but the blob may be there. */
static int finish_upload(struct blob_upload *u, struct error *err)
{
	static const char *const headers[] = {
		"Content-Type: application/octet-stream", NULL
	};
	AUTO_BUF url = BUF_INIT;
	struct registry_request req = {
		.http = { .method = "PUT",
			  .headers = headers,
			  .body_fd = u->fd,
			  .body_off = u->done,
			  .body_len = u->size - u->done,
			  .sent = on_sent,
			  .sent_arg = u },
		.what = u->what,
	};
	int rc;

	if (buf_printf(&url, "%s%cdigest=%s", u->location,
		       strchr(u->location, '?') ? '&' : '?', u->digest) < 0)
		return error_nomem(err);
	req.http.url = url.data;
	rc = registry_try(u->r, &req, &u->resp, err);
	if (u->resp.status == 400 && u->resp.body.data &&
	    strstr(u->resp.body.data, "DIGEST_INVALID"))
		rc = error_set(err, EBADMSG,
			       "%s/%s: %s: the registry says that the content "
			       "is not what its digest says",
			       u->r->host, u->r->repo, u->what);
	return rc;
}

/* Does this registry take no chunks?  Many want a blob in one piece.  (416 is no
 * such case: it takes chunks, and has more than we know.) */
static bool dislikes_chunks(const struct blob_upload *u, long status)
{
	return u->done == 0 &&
	       (status == 400 || status == 404 || status == 405 ||
		status == 411 || status == 415 || status == 501);
}

/* Send what is missing. */
static int send_rest_of_upload(struct blob_upload *u, bool *chunks,
			       struct error *err)
{
	/* Bytes that fit in one chunk go with the last request. */
	while (*chunks && u->size - u->done > u->chunk) {
		int rc = send_chunk(u, err);

		if (rc < 0 && dislikes_chunks(u, u->resp.status)) {
			*chunks = false;
			rc = begin_upload(u, err);
		}
		if (rc < 0)
			return rc;
	}
	return finish_upload(u, err);
}

static int find_same_blob(const struct blob_upload *u, const struct digest *d,
			  bool *ret, struct error *err)
{
	uint64_t size = 0;
	int rc = registry_find_blob(&u->r->base, d, ret, &size, err);

	/* A blob of another length is a broken one: ours replaces it. */
	if (rc == 0 && size != UINT64_MAX && size != u->size)
		*ret = false;
	return rc;
}

static int send_all(struct blob_upload *u, const struct digest *d,
		    struct error *err)
{
	bool chunks = true, there = false;
	uint64_t mark = 0;
	int rc = begin_upload(u, err);

	for (unsigned int n = 0; rc == 0;) {
		long status;

		rc = send_rest_of_upload(u, &chunks, err);
		status = u->resp.status;
		if (rc == 0 || rc == -EBADMSG || rc == -ECANCELED)
			return rc;
		if (u->done > mark) {
			mark = u->done;
			n = 0;
		}
		/* The others: the session is gone, or not where we think. */
		if (++n >= u->r->cfg.attempts ||
		    !(registry_can_retry(rc, status) || status == 400 ||
		      status == 404 || status == 416) ||
		    registry_back_off(n, &u->resp, 0, NULL) < 0)
			return rc;
		rc = find_same_blob(u, d, &there, err);
		if (rc < 0 || there)
			return rc;
		if (ask_state(u, err) < 0)
			rc = begin_upload(u, err);
	}
	return rc;
}

int registry_put_blob(struct oci_store *s, const struct digest *d,
		      uint64_t size, int fd, struct oci_progress *p,
		      struct error *err)
{
	char name[DIGEST_STR_MAX], what[DIGEST_STR_MAX + 32];
	struct blob_upload u = {
		.r = registry_of(s),
		.what = what,
		.digest = name,
		.size = size,
		.fd = fd,
		.progress = p,
	};
	bool have = false;
	int rc;

	digest_format(d, name);
	(void)snprintf(what, sizeof(what), "upload of blob %s", name);
	rc = find_same_blob(&u, d, &have, err);
	if (rc == 0 && !have)
		rc = send_all(&u, d, err);
	free(u.location);
	http_response_fini(&u.resp);
	return rc;
}

/* ------------------------------------------------------------- manifests --- */

static int put_document(struct registry *r, const char *ref,
			const char *media_type, const void *body, size_t len,
			struct http_response *resp, struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	AUTO_BUF type = BUF_INIT;
	AUTO_BUF what = BUF_INIT;
	const char *headers[2] = { NULL };
	struct registry_request req = {
		.http = { .method = "PUT",
			  .headers = headers,
			  .body = body,
			  .body_len = len },
	};

	if (buf_printf(&path, "/manifests/%s", ref) < 0 ||
	    buf_printf(&what, "upload of manifest '%s'", ref) < 0 ||
	    buf_printf(&type, "Content-Type: %s", media_type) < 0)
		return error_nomem(err);
	headers[0] = type.data;
	req.http.url = path.data;
	req.what = what.data;
	return registry_do(r, &req, resp, err);
}

/* The list of a subject, by tag. */
struct list_tag {
	char tag[REFERRERS_TAG_MAX];
	json_t *index;
	bool is_new; /* the registry has none there */
};

static int list_tag_parse(struct list_tag *t, const struct oci_manifest *m,
			  struct error *err)
{
	json_t *list;
	int rc = bounded_json_load(m->body.data, m->body.len, t->tag, &t->index,
				   err);

	if (rc < 0)
		return rc;
	list = json_object_get(t->index, "manifests");
	if (json_is_array(list))
		return 0;
	if (json_is_null(list) &&
	    json_object_set_new(t->index, "manifests", json_array()) == 0)
		return 0;
	json_decref(t->index);
	return error_set(err, EINVAL, "tag '%s' is no list of referrers",
			 t->tag);
}

static int list_tag_new(struct list_tag *t, struct error *err)
{
	t->is_new = true;
	t->index = json_pack("{s:i, s:s, s:[]}", "schemaVersion", 2,
			     "mediaType", INDEX_TYPE, "manifests");
	return t->index ? 0 : error_nomem(err);
}

/* Made anew where there is none. `is_own`: in the tag of ours. */
static int list_tag_load(struct registry *r, const struct digest *subject,
			 bool is_own, struct list_tag *t, struct error *err)
{
	AUTO_FINI(oci_manifest) m = { .body = BUF_INIT };
	int rc;

	if (is_own) {
		registry_referrers_tag(subject, t->tag);
		strcat(t->tag, REFERRERS_TAG_OWN);
		rc = registry_get_manifest(&r->base, t->tag, &m, err);
	} else {
		rc = registry_get_list(r, subject, t->tag, &m, err);
	}
	t->is_new = false;
	return rc == -ENOENT ? list_tag_new(t, err)
	       : rc < 0      ? rc
			     : list_tag_parse(t, &m, err);
}

/* Answers by which registries refuse a tag: because of its name, or because it is there
 * and immutable. */
static bool is_tag_refused(long status)
{
	return status == 400 || status == 403 || status == 405 ||
	       status == 409 || status == 412 || status == 422;
}

/* `err` has the registry's reason. */
static int set_list_refused_error(const struct registry *r,
				  const struct list_tag *t, struct error *err)
{
	const struct error why = *err;

	if (t->is_new)
		return error_set(err, ENOTSUP,
				 "%s/%s: it keeps no referrers, neither by its "
				 "API nor in tags: 'image convert --form flat "
				 "--no-sign' needs none (%.90s)",
				 r->host, r->repo, why.msg);
	return error_set(err, ENOTSUP,
			 "%s/%s: tags are immutable, and '%.19s...' has to "
			 "list one referrer more: exempt tags 'sha256-*' from "
			 "that rule, or see docs/registries.md",
			 r->host, r->repo, t->tag);
}

/* 1: the tag is refused because of its name. */
static int list_tag_save(struct registry *r, struct list_tag *t,
			 struct error *err)
{
	AUTO_FREE char *text =
		json_dumps(t->index, JSON_COMPACT | JSON_PRESERVE_ORDER);
	struct http_response resp = HTTP_RESPONSE_INIT;
	struct error why = ERROR_INIT;
	long status;
	int rc;

	if (!text)
		return error_nomem(err);
	rc = put_document(r, t->tag, INDEX_TYPE, text, strlen(text), &resp,
			  &why);
	status = resp.status;
	http_response_fini(&resp);
	if (rc < 0 && is_tag_refused(status)) {
		if (t->is_new && !strstr(t->tag, REFERRERS_TAG_OWN))
			return 1;
		rc = set_list_refused_error(r, t, &why);
	}
	if (rc < 0 && err)
		*err = why;
	return rc;
}

static bool has_entry(const json_t *index, const char *digest)
{
	const json_t *list = json_object_get(index, "manifests");

	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *have = json_string_value(
			json_object_get(json_array_get(list, i), "digest"));

		if (have && strcmp(have, digest) == 0)
			return true;
	}
	return false;
}

static void drop_entry(json_t *index, const char *digest)
{
	json_t *list = json_object_get(index, "manifests");

	for (size_t i = json_array_size(list); i-- > 0;) {
		const char *have = json_string_value(
			json_object_get(json_array_get(list, i), "digest"));

		if (have && strcmp(have, digest) == 0)
			(void)json_array_remove(list, i);
	}
}

/* Entries whose manifests are gone, as garbage collection of untagged ones leaves them:
 * some registries refuse a list that has one.  How many there were. */
static size_t drop_missing_manifests(struct registry *r, json_t *index)
{
	json_t *list = json_object_get(index, "manifests");
	size_t n = json_array_size(list),
	       looks = n < GONE_LOOKS ? n : GONE_LOOKS;
	size_t gone = 0;

	for (size_t i = 0; i < looks; i++) {
		size_t at = n - 1 - i;
		const char *digest = json_string_value(
			json_object_get(json_array_get(list, at), "digest"));
		struct oci_manifest m = { .body = BUF_INIT };
		struct digest d;

		/* A stranger who may push may have written the digest, which becomes part
		 * of an address that is asked with our login. */
		if (!digest || digest_parse(digest, &d, NULL) < 0)
			continue;
		if (registry_get_manifest(&r->base, digest, &m, NULL) ==
		    -ENOENT) {
			(void)json_array_remove(list, at);
			gone++;
		}
		oci_manifest_fini(&m);
	}
	return gone;
}

/* Save it, if need be without what is not there any more. */
static int save_list_without_missing(struct registry *r, struct list_tag *t,
				     struct error *err)
{
	int rc = list_tag_save(r, t, err);

	return rc == -ENOTSUP && !t->is_new &&
			       drop_missing_manifests(r, t->index)
		       ? list_tag_save(r, t, err)
		       : rc;
}

/* Distribution-spec 1.1, Pushing Manifests with Subject, step 4. */
static json_t *make_entry(const struct oci_image *image, const char *media_type,
			  const char *digest, size_t len)
{
	const char *type = *image->artifact_type ? image->artifact_type
						 : image->config.media_type;
	const char *notes = image->annotations;
	json_t *entry = json_pack("{s:s, s:s, s:I, s:s}", "mediaType",
				  media_type, "digest", digest, "size",
				  (json_int_t)len, "artifactType", type);

	/* A list is read by every start, and has a bound: long ones are left to
	 * the manifest. */
	if (entry && notes && strlen(notes) <= NOTES_MAX &&
	    json_object_set_new(entry, "annotations",
				json_loads(notes, 0, NULL)) < 0) {
		json_decref(entry);
		return NULL;
	}
	return entry;
}

static int add_referrer(struct registry *r, struct list_tag *t,
			const struct oci_image *image, const char *media_type,
			const char *digest, size_t len, struct error *err)
{
	json_t *entry = make_entry(image, media_type, digest, len);

	if (!entry ||
	    json_array_append_new(json_object_get(t->index, "manifests"),
				  entry) < 0)
		return error_nomem(err);
	return save_list_without_missing(r, t, err);
}

/* Some list by the API what they do not say so of when it is stored. */
static bool is_listed(struct registry *r, const struct digest *subject,
		      const char *digest)
{
	AUTO_FREE struct digest *list = NULL;
	char name[DIGEST_STR_MAX];
	bool found = false;
	size_t n = 0;

	if (registry_list_referrers(&r->base, subject, NULL, &list, &n, NULL) <
	    0)
		return false;
	for (size_t i = 0; i < n && !found; i++) {
		digest_format(&list[i], name);
		found = strcmp(name, digest) == 0;
	}
	return found;
}

/* A tag has no compare-and-swap, so two writers may lose an entry: look again
 * until ours is there. */
static int enter_referrer(struct registry *r, const struct oci_image *image,
			  const char *media_type, const char *digest,
			  size_t len, struct error *err)
{
	bool is_done = false, is_own = false;
	struct list_tag t;

	for (unsigned int n = 0; n <= REFERRER_TRIES; n++) {
		int rc = list_tag_load(r, &image->subject, is_own, &t, err);

		if (rc < 0)
			return rc;
		is_done = has_entry(t.index, digest);
		if (!is_done && n < REFERRER_TRIES)
			rc = add_referrer(r, &t, image, media_type, digest, len,
					  err);
		json_decref(t.index);
		if (rc == -ENOTSUP && is_listed(r, &image->subject, digest))
			return 0;
		if (rc < 0 || is_done)
			return rc;
		is_own |= rc == 1;
	}
	return error_set(err, EIO,
			 "%s/%s: tag '%s' loses our entry: others write it all "
			 "the time",
			 r->host, r->repo, t.tag);
}

/* A tag that is immutable, or was pushed by an attempt whose answer was lost, may have the
 * very manifest already. */
static bool tag_has_same_manifest(struct registry *r, const char *tag,
				  const struct digest *d)
{
	AUTO_FINI(oci_manifest) m = { .body = BUF_INIT };

	return registry_get_manifest(&r->base, tag, &m, NULL) == 0 &&
	       digest_equal(&m.digest, d);
}

int registry_put_manifest(struct oci_store *s, const char *ref,
			  const char *media_type, const void *body, size_t len,
			  struct error *err)
{
	struct registry *r = registry_of(s);
	struct http_response resp = HTTP_RESPONSE_INIT;
	struct oci_image image = { .n_layers = 0 };
	char digest[DIGEST_STR_MAX];
	AUTO_FREE char *known = NULL;
	struct digest d;
	int rc;

	if (digest_of(body, len, &d) < 0)
		return error_nomem(err);
	digest_format(&d, digest);
	rc = put_document(r, ref ? ref : digest, media_type, body, len, &resp,
			  err);
	if (rc < 0 && ref && is_tag_refused(resp.status) &&
	    tag_has_same_manifest(r, ref, &d))
		rc = 0;
	if (rc < 0 || oci_media_type_is_index(media_type))
		goto out;
	rc = oci_image_parse(body, len, &image, err);
	if (rc == 0 && image.has_subject) {
		/* Present: the registry lists referrers by itself. */
		known = http_header(&resp, "oci-subject");
		if (!known)
			rc = enter_referrer(r, &image, media_type, digest, len,
					    err);
	}
	oci_image_fini(&image);
out:
	http_response_fini(&resp);
	return rc;
}

static int drop_referrer(struct registry *r, const struct digest *subject,
			 const char *digest, struct error *err)
{
	struct list_tag t;
	int rc = list_tag_load(r, subject, false, &t, err);

	if (rc < 0)
		return rc;
	if (has_entry(t.index, digest)) {
		drop_entry(t.index, digest);
		rc = save_list_without_missing(r, &t, err);
	}
	json_decref(t.index);
	return rc;
}

/* Take the manifest off the list of its subject, where a tag holds that. */
static int leave_referrers_list(struct registry *r, const char *digest,
				struct error *err)
{
	AUTO_FINI(oci_manifest) m = { .body = BUF_INIT };
	struct oci_image image = { .n_layers = 0 };
	int rc = registry_get_manifest(&r->base, digest, &m, err);

	if (rc == 0 && !oci_media_type_is_index(m.media_type))
		rc = oci_image_parse(m.body.data, m.body.len, &image, err);
	if (rc == 0 && image.has_subject)
		rc = drop_referrer(r, &image.subject, digest, err);
	oci_image_fini(&image);
	return rc;
}

int registry_remove_manifest(struct oci_store *s, const struct digest *d,
			     struct error *err)
{
	struct registry *r = registry_of(s);
	AUTO_FINI(http_response) resp = HTTP_RESPONSE_INIT;
	char digest[DIGEST_STR_MAX];
	AUTO_BUF path = BUF_INIT;
	AUTO_BUF what = BUF_INIT;
	struct registry_request req = { .http = { .method = "DELETE" } };
	int rc;

	digest_format(d, digest);
	if (buf_printf(&path, "/manifests/%s", digest) < 0 ||
	    buf_printf(&what, "removal of manifest %s", digest) < 0)
		return error_nomem(err);
	req.http.url = path.data;
	req.what = what.data;
	rc = leave_referrers_list(r, digest, err);
	if (rc == 0)
		rc = registry_do(r, &req, &resp, err);
	return rc;
}
