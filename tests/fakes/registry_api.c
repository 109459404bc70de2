// SPDX-License-Identifier: Apache-2.0
/* What fake-registry answers when it behaves (distribution-spec 1.1). */
#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/fakes/registry.h"

#define BASIC_LOGIN "Basic dXNlcjpzZWNyZXQ=" /* user:secret */

static const char *in_header(struct evhttp_request *req, const char *name)
{
	const char *v =
		evhttp_find_header(evhttp_request_get_input_headers(req), name);

	return v ? v : "";
}

/* ------------------------------------------------------------------- login --- */

static bool is_write(struct evhttp_request *req)
{
	return evhttp_request_get_command(req) != EVHTTP_REQ_GET &&
	       evhttp_request_get_command(req) != EVHTTP_REQ_HEAD;
}

static void serve_token(struct fake *f, struct evhttp_request *req)
{
	struct evbuffer *in = evhttp_request_get_input_buffer(req);
	const char *uri = evhttp_request_get_uri(req);
	struct evbuffer *out;
	AUTO_BUF form = BUF_INIT;
	const char *login = in_header(req, "Authorization");
	bool good = !fault(f, FAULT_LOGIN) || strcmp(login, BASIC_LOGIN) == 0;

	if (fault(f, FAULT_TOKEN_MOVED)) {
		char to[64];

		snprintf(to, sizeof(to), "http://127.0.0.1:%u/steal",
			 f->control_port);
		fake_header(req, "Location", to);
		fake_reply_text(f, req, 307, "");
		return;
	}
	if (evhttp_request_get_command(req) == EVHTTP_REQ_POST &&
	    buf_append(&form, evbuffer_pullup(in, -1),
		       evbuffer_get_length(in)) == 0) {
		good = strstr(form.data, "refresh_token=refresh") != NULL;
		uri = form.data;
	}
	if (fault(f, FAULT_LOCKED) && *login &&
	    strcmp(login, BASIC_LOGIN) != 0) {
		fake_reply_text(f, req, (int)fault(f, FAULT_LOCKED), "{}");
		return;
	}
	if (!good) {
		fake_reply_text(f, req, 401, "{}");
		return;
	}
	f->token_serial++;
	f->token_used = 0;
	out = evbuffer_new();
	evbuffer_add_printf(out, "{\"token\":\"t%u-%s\",\"expires_in\":60}",
			    f->token_serial, strstr(uri, "push") ? "w" : "r");
	fake_reply(f, req, 200, out);
}

static bool has_token(struct fake *f, struct evhttp_request *req)
{
	char read[64], write[64];
	const char *have = in_header(req, "Authorization");

	snprintf(read, sizeof(read), "Bearer t%u-r", f->token_serial);
	snprintf(write, sizeof(write), "Bearer t%u-w", f->token_serial);
	if (strcmp(have, write) != 0 &&
	    (is_write(req) || strcmp(have, read) != 0))
		return false;
	return !fault(f, FAULT_TOKEN_USES) ||
	       f->token_used++ < fault(f, FAULT_TOKEN_USES);
}

/* As some registries say that a token is over. */
static bool refuse_login(struct fake *f, struct evhttp_request *req)
{
	if (!fault(f, FAULT_REFUSAL) || !*in_header(req, "Authorization"))
		return false;
	fake_reply_text(f, req, (int)fault(f, FAULT_REFUSAL),
			"{\"errors\":[{\"code\":\"DENIED\",\"message\":\"Your "
			"authorization token has expired.\"}]}");
	return true;
}

bool fake_authorize(struct fake *f, struct evhttp_request *req)
{
	char challenge[256];

	if (strncmp(evhttp_request_get_uri(req), "/token", 6) == 0) {
		serve_token(f, req);
		return false;
	}
	if (fault(f, FAULT_BASIC)) {
		if (strcmp(in_header(req, "Authorization"), BASIC_LOGIN) == 0)
			return true;
		if (refuse_login(f, req))
			return false;
		fake_header(req, "WWW-Authenticate", "Basic realm=\"fake\"");
		fake_reply_text(f, req, 401, "{}");
		return false;
	}
	if (!fault(f, FAULT_BEARER) || has_token(f, req))
		return true;
	if (refuse_login(f, req))
		return false;
	snprintf(challenge, sizeof(challenge),
		 "Bearer realm=\"http://127.0.0.1:%u/token\",service=\"fake\","
		 "scope=\"repository:any:%s\"",
		 fault(f, FAULT_TOKEN_PORT)
			 ? (unsigned int)fault(f, FAULT_TOKEN_PORT)
			 : f->port,
		 is_write(req) ? "pull,push" : "pull");
	fake_header(req, "WWW-Authenticate", challenge);
	fake_reply_text(f, req, 401, "{}");
	return false;
}

/* ------------------------------------------------------------------- blobs --- */

static int open_blob(const struct fake *f, const char *digest)
{
	AUTO_BUF path = BUF_INIT;
	struct digest d;

	if (digest_parse(digest, &d, NULL) < 0 ||
	    buf_printf(&path, "%s/blobs/sha256/%s", f->dir, digest + 7) < 0)
		return -1;
	return open(path.data, O_RDONLY | O_CLOEXEC);
}

struct extent {
	uint64_t first, last, size;
	int status;
};

/* What to send of a blob of e->size bytes. */
static void choose_range(struct fake *f, struct evhttp_request *req,
			 struct extent *e)
{
	uint64_t first = 0, last = UINT64_MAX;
	int64_t max = fault(f, FAULT_MAX_RANGE);
	char range[96];

	e->first = 0;
	e->last = e->size - 1;
	e->status = 200;
	if (fault(f, FAULT_NO_RANGE) ||
	    sscanf(in_header(req, "Range"), "bytes=%" SCNu64 "-%" SCNu64,
		   &first, &last) < 1)
		return;
	e->status = first < e->size ? 206 : 416;
	if (e->status == 416)
		return;
	e->first = first;
	if (last < e->last)
		e->last = last;
	if (max && e->last - e->first >= (uint64_t)max)
		e->last = e->first + (uint64_t)max - 1;
	if (fault_strikes(f, FAULT_BAD_RANGE, evhttp_request_get_uri(req)))
		e->first++;
	snprintf(range, sizeof(range), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64,
		 e->first, e->last, e->size);
	fake_header(req, "Content-Range", range);
}

/* The bytes of the extent; mapped, or a copy that is wrong in one bit. */
static void add_extent(struct fake *f, struct evhttp_request *req, int fd,
		       const struct extent *e, struct evbuffer *body)
{
	size_t len = (size_t)(e->last - e->first + 1);
	uint64_t wrong = (uint64_t)fault(f, FAULT_WRONG) - 1;
	AUTO_FREE char *copy = NULL;

	if (wrong < e->first || wrong > e->last ||
	    !fault_strikes(f, FAULT_WRONG, evhttp_request_get_uri(req))) {
		evbuffer_add_file(body, fd, (ev_off_t)e->first, (ev_off_t)len);
		return;
	}
	copy = malloc(len);
	if (!copy || fs_pread_full(fd, copy, len, e->first) < 0)
		abort();
	copy[wrong - e->first] ^= 1;
	evbuffer_add(body, copy, len);
	close(fd);
}

void fake_serve_blob(struct fake *f, struct evhttp_request *req,
		     const char *digest)
{
	AUTO_CLOSE int fd = open_blob(f, digest);
	struct evbuffer *body = evbuffer_new();
	struct extent e = { .size = 0 };
	struct stat st;
	char length[32];

	if (fd < 0 || fstat(fd, &st) < 0) {
		evbuffer_free(body);
		fake_reply_text(f, req, 404,
				"{\"errors\":[{\"code\":\"BLOB_UNKNOWN\"}]}");
		return;
	}
	e.size = (uint64_t)st.st_size;
	choose_range(f, req, &e);
	fake_header(req, "Docker-Content-Digest", digest);
	if (evhttp_request_get_command(req) == EVHTTP_REQ_HEAD) {
		snprintf(length, sizeof(length), "%" PRIu64, e.size);
		fake_header(req, "Content-Length", length);
	} else if (e.status != 416 && e.size) {
		add_extent(f, req, steal_fd(&fd), &e, body);
	}
	fake_reply(f, req, e.status, body);
}

static void serve_blob(struct fake *f, struct evhttp_request *req,
		       const char *digest)
{
	bool is_head = evhttp_request_get_command(req) == EVHTTP_REQ_HEAD;
	char to[256];

	if (is_head && fault(f, FAULT_NO_HEAD) == 1) {
		fake_reply_text(f, req, 405, "");
		return;
	}
	if (!fault(f, FAULT_REDIRECT) ||
	    (is_head && !fault(f, FAULT_NO_HEAD))) {
		fake_serve_blob(f, req, digest);
		return;
	}
	snprintf(to, sizeof(to), "http://127.0.0.1:%u/storage/%.80s",
		 f->control_port, digest);
	fake_header(req, "Location", to);
	fake_reply_text(f, req, 307, "");
}

/* ----------------------------------------------------------------- uploads --- */

static struct session *find_session(struct fake *f, const char *id)
{
	size_t len = strcspn(id, "?");

	for (size_t i = 0; i < ARRAY_SIZE(f->sessions); i++)
		if (len && strlen(f->sessions[i].id) == len &&
		    strncmp(f->sessions[i].id, id, len) == 0)
			return &f->sessions[i];
	return NULL;
}

static void end_session(struct session *s)
{
	fclose(s->file);
	*s = (struct session){ .size = 0 };
}

/* Location and Range of a session. */
static void reply_session(struct fake *f, struct evhttp_request *req,
			  const struct session *s, int status)
{
	char to[128], range[48];

	snprintf(to, sizeof(to), "/v2/any/blobs/uploads/%s?state=%" PRIu64,
		 s->id, s->size);
	snprintf(range, sizeof(range), "0-%" PRIu64, s->size ? s->size - 1 : 0);
	fake_header(req, "Location", to);
	fake_header(req, "Range", range);
	fake_reply_text(f, req, status, "");
}

static void begin_upload(struct fake *f, struct evhttp_request *req)
{
	for (size_t i = 0; i < ARRAY_SIZE(f->sessions); i++) {
		struct session *s = &f->sessions[i];

		if (*s->id)
			continue;
		s->file = tmpfile();
		snprintf(s->id, sizeof(s->id), "u%u", ++f->n_sessions);
		reply_session(f, req, s, 202);
		return;
	}
	fake_reply_text(f, req, 503, "too many uploads");
}

/* At most `max` bytes of the request's body go to the session. */
static void append_body(struct session *s, struct evhttp_request *req,
			size_t max)
{
	struct evbuffer *in = evhttp_request_get_input_buffer(req);
	size_t len = evbuffer_get_length(in);

	if (len > max)
		len = max;
	if (len && fs_pwrite_full(fileno(s->file),
				  evbuffer_pullup(in, (ev_ssize_t)len), len,
				  s->size) < 0)
		abort();
	s->size += len;
}

static void patch_upload(struct fake *f, struct evhttp_request *req,
			 struct session *s)
{
	const char *range = in_header(req, "Content-Range");
	const char *uri = evhttp_request_get_uri(req);
	uint64_t first = s->size;

	if (*range && fault(f, FAULT_NO_CHUNKS)) {
		fake_reply_text(f, req, 400, "no chunks");
	} else if (*range && (sscanf(range, "%" SCNu64 "-", &first) != 1 ||
			      first != s->size)) {
		reply_session(f, req, s, 416);
	} else if (fault_strikes(f, FAULT_UPLOAD_CUT, uri)) {
		append_body(s, req, (size_t)fault(f, FAULT_UPLOAD_CUT));
		fake_drop(f, req);
	} else {
		append_body(s, req, SIZE_MAX);
		reply_session(f, req, s, 202);
	}
}

static void finish_upload(struct fake *f, struct evhttp_request *req,
			  struct session *s)
{
	const char *uri = evhttp_request_get_uri(req);
	const char *text = strstr(uri, "digest=");
	struct error err = ERROR_INIT;
	char digest[DIGEST_STR_MAX];
	struct digest d;
	AUTO_FREE char *decoded = NULL;
	AUTO_FREE char *value = NULL;
	int rc = -EINVAL;

	append_body(s, req, SIZE_MAX);
	value = text ? strndup(text + 7, strcspn(text + 7, "&")) : NULL;
	decoded = evhttp_uridecode(value ? value : "", 0, NULL);
	if (decoded && digest_parse(decoded, &d, &err) == 0)
		rc = oci_put_blob(f->store, &d, s->size, fileno(s->file), NULL,
				  &err);
	end_session(s);
	if (rc < 0) {
		fake_reply_text(f, req, 400,
				"{\"errors\":[{\"code\":\"DIGEST_INVALID\"}]}");
		return;
	}
	if (fault_strikes(f, FAULT_DROP_AFTER, uri)) {
		fake_drop(f, req);
		return;
	}
	digest_format(&d, digest);
	fake_header(req, "Docker-Content-Digest", digest);
	fake_reply_text(f, req, 201, "");
}

static void serve_upload(struct fake *f, struct evhttp_request *req,
			 const char *id)
{
	struct session *s = find_session(f, id);

	if (*id == '\0' || *id == '?') {
		begin_upload(f, req);
		return;
	}
	if (s &&
	    fault_strikes(f, FAULT_UPLOAD_LOSE, evhttp_request_get_uri(req))) {
		end_session(s);
		s = NULL;
	}
	if (!s)
		fake_reply_text(f, req, 404, "{}");
	else if (evhttp_request_get_command(req) == EVHTTP_REQ_PATCH)
		patch_upload(f, req, s);
	else if (evhttp_request_get_command(req) == EVHTTP_REQ_PUT)
		finish_upload(f, req, s);
	else
		reply_session(f, req, s, 204);
}

/* --------------------------------------------------------------- manifests --- */

static void reply_error(struct fake *f, struct evhttp_request *req, int rc,
			const struct error *err)
{
	json_t *j = json_pack("{s:[{s:s,s:s}]}", "errors", "code",
			      rc == -ENOENT ? "MANIFEST_UNKNOWN" : "UNKNOWN",
			      "message", err->msg);
	char *text = json_dumps(j, 0);

	fake_reply_text(f, req, rc == -ENOENT ? 404 : 400, text);
	free(text);
	json_decref(j);
}

/* The digest that such a tag stands for. */
static bool is_digest_tag(const struct fake *f, const char *ref,
			  char digest[DIGEST_STR_MAX])
{
	struct digest d;

	if (!fault(f, FAULT_DIGEST_TAGS) || strncmp(ref, "sha256-", 7) != 0)
		return false;
	(void)snprintf(digest, DIGEST_STR_MAX, "sha256:%.64s", ref + 7);
	return digest_parse(digest, &d, NULL) == 0 && strlen(ref) == 71;
}

static bool refuse_tag(struct fake *f, struct evhttp_request *req,
		       const char *ref, const void *body, size_t len)
{
	struct oci_manifest m = { .body = BUF_INIT };
	char digest[DIGEST_STR_MAX];
	bool is_refused = is_digest_tag(f, ref, digest);
	int status = 400;

	(void)body;
	(void)len;
	if (!is_refused && fault(f, FAULT_IMMUTABLE) && !strchr(ref, ':') &&
	    oci_get_manifest(f->store, ref, &m, NULL) == 0) {
		status = (int)fault(f, FAULT_IMMUTABLE);
		is_refused = true;
	}
	oci_manifest_fini(&m);
	if (is_refused)
		fake_reply_text(f, req, status,
				"{\"errors\":[{\"code\":\"TAG_INVALID\","
				"\"message\":\"not this tag\"}]}");
	return is_refused;
}

static void put_manifest(struct fake *f, struct evhttp_request *req,
			 const char *ref)
{
	struct evbuffer *in = evhttp_request_get_input_buffer(req);
	struct oci_image image;
	struct error err = ERROR_INIT;
	char name[DIGEST_STR_MAX];
	size_t len = evbuffer_get_length(in);
	const void *body = evbuffer_pullup(in, -1);
	struct digest d;
	int rc;

	if (refuse_tag(f, req, ref, body, len))
		return;
	rc = oci_put_manifest(f->store, strchr(ref, ':') ? NULL : ref,
			      in_header(req, "Content-Type"), body, len, &err);
	if (rc < 0 || digest_of(body, len, &d) < 0) {
		reply_error(f, req, rc, &err);
		return;
	}
	if ((fault(f, FAULT_REFERRERS) == LISTS_PROPER ||
	     fault(f, FAULT_REFERRERS) == LISTS_UNTYPED) &&
	    oci_image_parse(body, len, &image, NULL) == 0) {
		digest_format(&image.subject, name);
		if (image.has_subject)
			fake_header(req, "OCI-Subject", name);
		oci_image_fini(&image);
	}
	digest_format(&d, name);
	fake_header(req, "Docker-Content-Digest", name);
	fake_reply_text(f, req, 201, "");
}

static void get_manifest(struct fake *f, struct evhttp_request *req,
			 const char *ref)
{
	struct oci_manifest m = { .body = BUF_INIT };
	struct error err = ERROR_INIT;
	struct evbuffer *out;
	char name[DIGEST_STR_MAX];
	int rc = oci_get_manifest(f->store,
				  is_digest_tag(f, ref, name) ? name : ref, &m,
				  &err);

	if (rc < 0) {
		reply_error(f, req, rc, &err);
		return;
	}
	digest_format(&m.digest, name);
	fake_header(req, "Docker-Content-Digest", name);
	fake_header(req, "Content-Type", m.media_type);
	out = evbuffer_new();
	evbuffer_add(out, m.body.data, m.body.len);
	oci_manifest_fini(&m);
	fake_reply(f, req, 200, out);
}

static void serve_manifest(struct fake *f, struct evhttp_request *req,
			   const char *ref)
{
	struct error err = ERROR_INIT;
	struct digest d;
	int rc;

	switch (evhttp_request_get_command(req)) {
	case EVHTTP_REQ_PUT:
		put_manifest(f, req, ref);
		return;
	case EVHTTP_REQ_DELETE:
		if (fault(f, FAULT_NO_DELETE)) {
			fake_reply_text(f, req, 405, "{}");
			return;
		}
		rc = digest_parse(ref, &d, &err);
		if (rc == 0)
			rc = oci_remove_manifest(f->store, &d, &err);
		if (rc < 0)
			reply_error(f, req, rc, &err);
		else
			fake_reply_text(f, req, 202, "");
		return;
	default:
		get_manifest(f, req, ref);
	}
}

/* ------------------------------------------------------------------- lists --- */

static void reply_json(struct fake *f, struct evhttp_request *req,
		       const char *type, json_t *j)
{
	struct evbuffer *out = evbuffer_new();
	char *text = json_dumps(j, 0);

	fake_header(req, "Content-Type", type);
	evbuffer_add(out, text, strlen(text));
	free(text);
	json_decref(j);
	fake_reply(f, req, 200, out);
}

/* The query names the number of the first tag: "?last=N". */
static void serve_tags(struct fake *f, struct evhttp_request *req)
{
	const char *last = strstr(evhttp_request_get_uri(req), "last=");
	size_t from = last ? strtoul(last + 5, NULL, 10) : 0, n = 0;
	size_t page =
		fault(f, FAULT_PAGE) ? (size_t)fault(f, FAULT_PAGE) : 1000;
	json_t *list = json_array();
	struct error err = ERROR_INIT;
	char link[128];
	char **tags;

	if (oci_list_tags(f->store, 10000, &tags, &n, &err) < 0)
		n = 0;
	for (size_t i = from; i < n && i < from + page; i++)
		json_array_append_new(list, json_string(tags[i]));
	if (from + page < n) {
		snprintf(link, sizeof(link),
			 "</v2/any/tags/list?last=%zu>; rel=\"next\"",
			 from + page);
		fake_header(req, "Link", link);
	}
	while (n)
		free(tags[--n]);
	free(tags);
	reply_json(f, req, "application/json",
		   json_pack("{s:s,s:o}", "name", "any", "tags", list));
}

/* Some answers that are no list; false: it is one. */
static bool serve_odd_list(struct fake *f, struct evhttp_request *req)
{
	int64_t how = fault(f, FAULT_REFERRERS);
	struct evbuffer *out;
	const char *text = how == LISTS_OTHER  ? "{\"status\":\"ok\"}"
			   : how == LISTS_NULL ? "{\"schemaVersion\":2,"
						 "\"manifests\":null}"
					       : "";

	if (how == LISTS_NONE || how >= 100) {
		fake_reply_text(f, req, how ? (int)how : 404,
				"404 page not found\n");
		return true;
	}
	if (how != LISTS_OTHER && how != LISTS_NULL && how != LISTS_EMPTY)
		return false;
	out = evbuffer_new();
	evbuffer_add(out, text, strlen(text));
	fake_header(req, "Content-Type",
		    "application/vnd.oci.image.index.v1+json");
	fake_reply(f, req, 200, out);
	return true;
}

/* A descriptor of one referrer, as the registry lists it. */
static json_t *describe(struct fake *f, const struct digest *d)
{
	struct oci_manifest m = { .body = BUF_INIT };
	struct oci_image image = { .n_layers = 0 };
	char name[DIGEST_STR_MAX];
	json_t *j = NULL;

	digest_format(d, name);
	if (oci_get_manifest(f->store, name, &m, NULL) == 0 &&
	    oci_image_parse(m.body.data, m.body.len, &image, NULL) == 0)
		j = json_pack("{s:s,s:s,s:I,s:s}", "mediaType", m.media_type,
			      "digest", name, "size", (json_int_t)m.body.len,
			      "artifactType", image.artifact_type);
	if (j && image.annotations)
		json_object_set_new(j, "annotations",
				    json_loads(image.annotations, 0, NULL));
	if (j && fault(f, FAULT_REFERRERS) == LISTS_UNTYPED) {
		json_object_del(j, "annotations");
		json_object_del(j, "artifactType");
	}
	oci_image_fini(&image);
	oci_manifest_fini(&m);
	return j;
}

static void serve_referrers(struct fake *f, struct evhttp_request *req,
			    const char *text)
{
	json_t *list = json_array();
	struct digest *found = NULL, d;
	char name[DIGEST_STR_MAX];
	struct error err = ERROR_INIT;
	const char *type = strstr(text, "artifactType=");
	size_t n = 0;

	(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(text, "?"),
		       text);
	if (serve_odd_list(f, req)) {
		json_decref(list);
		return;
	}
	if (digest_parse(name, &d, &err) < 0) {
		json_decref(list);
		fake_reply_text(f, req, 404, "404 page not found\n");
		return;
	}
	if (oci_list_referrers(f->store, &d,
			       type ? type + strlen("artifactType=") : NULL,
			       &found, &n, &err) < 0)
		n = 0;
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, describe(f, &found[i]));
	free(found);
	if (fault(f, FAULT_REFERRERS) == LISTS_ENDLESS)
		fake_header(req, "Link", "</v2/?last=1>; rel=\"next\"");
	reply_json(f, req, "application/vnd.oci.image.index.v1+json",
		   json_pack("{s:i,s:s,s:o}", "schemaVersion", 2, "mediaType",
			     "application/vnd.oci.image.index.v1+json",
			     "manifests", list));
}

/* ---------------------------------------------------------------- dispatch --- */

void fake_serve(struct fake *f, struct evhttp_request *req)
{
	static const struct {
		const char *mark;
		void (*serve)(struct fake *f, struct evhttp_request *req,
			      const char *rest);
	} routes[] = {
		{ "/blobs/uploads/", serve_upload },
		{ "/blobs/", serve_blob },
		{ "/manifests/", serve_manifest },
		{ "/referrers/", serve_referrers },
	};
	const char *uri = evhttp_request_get_uri(req);
	const char *ns = strstr(uri, "?ns=");
	AUTO_FREE char *plain =
		ns ? strndup(uri, (size_t)(ns - uri)) : strdup(uri);

	/* A mirror is told whose it is. */
	uri = plain;
	if (strcmp(uri, "/v2/") == 0) {
		fake_reply_text(f, req, 200, "{}");
		return;
	}
	if (strstr(uri, "/tags/list")) {
		serve_tags(f, req);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
		const char *at = strstr(uri, routes[i].mark);

		if (!at)
			continue;
		routes[i].serve(f, req, at + strlen(routes[i].mark));
		return;
	}
	fake_reply_text(f, req, 404, "404 page not found\n");
}
