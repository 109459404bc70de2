// SPDX-License-Identifier: Apache-2.0
/* Reading from a registry: manifests, and ranges of blobs. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "objects/oci_json.h"
#include "objects/oci_registry.h"

/* Most bytes of a blob that are read and thrown away to come to a range, when the
 * registry does not honour ranges. */
#define SKIP_MAX ((uint64_t)64 << 20)
/* A cut behind at least so many new bytes does not count against the budget. */
#define PROGRESS_MIN (64u << 10)
/* The same of a transfer that hung: on a link that many share it got its share. */
#define HUNG_MIN 1u
/* Failures in a row after which a registry counts as one that is waited for. */
#define WATCHED_FAILURES 2

const char *const registry_manifest_headers[] = {
	"Accept: application/vnd.oci.image.index.v1+json, "
	"application/vnd.oci.image.manifest.v1+json, "
	"application/vnd.docker.distribution.manifest.list.v2+json, "
	"application/vnd.docker.distribution.manifest.v2+json, */*",
	NULL,
};

void registry_content_type(const struct http_response *resp, char *out,
			   size_t size)
{
	AUTO_FREE char *type = http_header(resp, "content-type");

	(void)snprintf(out, size, "%.*s", type ? (int)strcspn(type, "; ") : 0,
		       type ? type : "");
}

int registry_read_manifest(struct oci_store *s, const char *ref,
			   bool may_mirror, struct pace *pace,
			   struct oci_manifest *ret, struct error *err)
{
	struct registry *r = registry_of(s);
	AUTO_FINI(http_response) resp = HTTP_RESPONSE_INIT;
	AUTO_BUF path = BUF_INIT;
	AUTO_BUF what = BUF_INIT;
	struct digest d;
	char type[128];
	struct registry_request req = {
		.http = { .method = "GET",
			  .headers = registry_manifest_headers,
			  .pace = pace },
	};
	int rc;

	if (!ref)
		ref = "latest";
	if (buf_printf(&path, "/manifests/%s", ref) < 0 ||
	    buf_printf(&what, "manifest '%s'", ref) < 0)
		return error_nomem(err);
	req.http.url = path.data;
	req.what = what.data;
	if (may_mirror)
		req.use = digest_parse(ref, &d, NULL) == 0 ? REGISTRY_PULLS
							   : REGISTRY_RESOLVES;
	rc = registry_do(r, &req, &resp, err);
	if (rc == 0 && resp.body.len > OCI_MANIFEST_MAX)
		rc = error_set(err, EFBIG,
			       "%s/%s: manifest '%s' is longer "
			       "than %u bytes",
			       r->host, r->repo, ref, OCI_MANIFEST_MAX);
	/* A digest that was asked for decides; of a tag, the content does. */
	if (rc == 0 && digest_parse(ref, &ret->digest, NULL) < 0 &&
	    digest_of(resp.body.data ? resp.body.data : "", resp.body.len,
		      &ret->digest) < 0)
		rc = error_nomem(err);
	if (rc == 0) {
		registry_content_type(&resp, type, sizeof(type));
		rc = oci_json_media_type(resp.body.data, resp.body.len, type,
					 ret->media_type,
					 sizeof(ret->media_type), err);
		if (rc < 0)
			rc = error_wrap(err, rc, "%s/%s: '%s'", r->host,
					r->repo, ref);
	}
	if (rc == 0) {
		buf_fini(&ret->body);
		ret->body = resp.body;
		resp.body = (struct buf)BUF_INIT;
	}
	return rc;
}

int registry_get_manifest(struct oci_store *s, const char *ref,
			  struct oci_manifest *ret, struct error *err)
{
	return registry_read_manifest(s, ref, false, NULL, ret, err);
}

int registry_pull_manifest(struct oci_store *s, const char *ref,
			   struct oci_manifest *ret, struct error *err)
{
	return registry_read_manifest(s, ref, true, NULL, ret, err);
}

static bool head_status_is_accepted(long status)
{
	return status == 200 || status == 404;
}

/* Does the status answer a GET for one byte? 416 is what an empty blob gives. */
static bool get_status_is_accepted(long status)
{
	return status == 200 || status == 206 || status == 404 || status == 416;
}

/* Is the blob's size after the slash of Content-Range, or its Content-Length? */
static uint64_t size_of_answer(const struct http_response *resp)
{
	AUTO_FREE char *length = http_header(resp, "content-length");
	AUTO_FREE char *range = http_header(resp, "content-range");
	const char *total = range ? strchr(range, '/') : NULL;
	uint64_t size = UINT64_MAX;

	if (resp->status == 200 && length)
		return strtoull(length, NULL, 10);
	if (total && sscanf(total, "/%" SCNu64, &size) == 1)
		return size;
	return UINT64_MAX;
}

static int stop_at_byte(struct http_sink *sink,
			const struct http_response *resp, const void *data,
			size_t len, struct error *err)
{
	(void)sink;
	(void)resp;
	(void)data;
	(void)len;
	(void)err;
	return HTTP_STOP;
}

/* Ask by HEAD, or by GET of the first byte. */
static int ask_for_blob(struct registry *r, const char *name, bool by_get,
			struct http_response *resp, struct error *err)
{
	static const char *const first_byte[] = { "Range: bytes=0-0", NULL };
	struct http_sink sink = { .put = stop_at_byte };
	AUTO_BUF path = BUF_INIT;
	struct registry_request req = {
		.http = { .method = by_get ? "GET" : "HEAD",
			  .headers = by_get ? first_byte : NULL,
			  .sink = by_get ? &sink : NULL },
		.what = name,
		.accept = by_get ? get_status_is_accepted
				 : head_status_is_accepted,
	};

	if (buf_printf(&path, "/blobs/%s", name) < 0)
		return error_nomem(err);
	req.http.url = path.data;
	return registry_do(r, &req, resp, err);
}

/* HEAD may be refused where GET is not: by the registry, or by the storage that it leads
 * to, whose signed addresses are often good for GET alone. */
static bool is_head_refused(long status)
{
	return (status / 100 == 4 && status != 408 && status != 425 &&
		status != 429) ||
	       status == 501;
}

int registry_find_blob(struct oci_store *s, const struct digest *d, bool *ret,
		       uint64_t *ret_size, struct error *err)
{
	struct registry *r = registry_of(s), *known = r->whole ? r->whole : r;
	AUTO_FINI(http_response) resp = HTTP_RESPONSE_INIT;
	bool by_get = atomic_load(&known->refuses_head);
	char name[DIGEST_STR_MAX];
	int rc;

	digest_format(d, name);
	rc = ask_for_blob(r, name, by_get, &resp, err);
	if (rc < 0 && !by_get && is_head_refused(resp.status)) {
		rc = ask_for_blob(r, name, true, &resp, err);
		if (rc == 0)
			atomic_store(&known->refuses_head, true);
	}
	if (rc == 0) {
		*ret = resp.status != 404;
		*ret_size = size_of_answer(&resp);
	}
	return rc;
}

/* ---------------------------------------------------------------- ranges --- */

struct blob_source {
	struct source base;
	struct registry *registry;
	struct digest digest;
	pthread_mutex_t lock; /* of the two below */
	char *moved;   /* where the registry sent us last: it saves a round trip
	              * for each further range; or NULL */
	char *referer; /* header line that goes there; or NULL */
	struct registry *moved_by; /* who sent us: it, or its mirror */
};

/* A read under way: passes on what is in the range and knows how far it is, so that
 * another attempt asks for the rest only. */
struct oci_range {
	struct http_sink sink;
	struct source_sink *to;
	uint64_t next, end; /* bytes of the blob still wanted */
	uint64_t skip;      /* of this answer, when the range was ignored */
	bool started;       /* this answer's first bytes were looked at */
	int refused;        /* what `to` returned, or why the answer is wrong */
	const struct blob_source *blob;
};

/* Where does this answer begin?  206 says so; 200 is the whole blob. */
static int check_range_begin(struct oci_range *g,
			     const struct http_response *resp,
			     struct error *err)
{
	AUTO_FREE char *header = http_header(resp, "content-range");
	uint64_t first, last, size = g->blob->base.size, have;
	const char *total;

	g->started = true;
	g->skip = g->next;
	if (resp->status != 206) {
		if (g->skip <= SKIP_MAX)
			return 0;
		return error_set(err, ENOTSUP,
				 "the registry does not serve ranges, and "
				 "%" PRIu64 " bytes before this one are too "
				 "many to skip",
				 g->skip);
	}
	g->skip = 0;
	if (!header ||
	    sscanf(header, "bytes %" SCNu64 "-%" SCNu64, &first, &last) != 2 ||
	    first != g->next)
		return error_set(err, EPROTO,
				 "the registry sent another range than was "
				 "asked for: '%.60s'",
				 header ? header : "");
	total = strchr(header, '/');
	if (size && total && sscanf(total, "/%" SCNu64, &have) == 1 &&
	    have != size)
		return error_set(err, EBADMSG,
				 "the registry's blob has %" PRIu64 " bytes, "
				 "its descriptor says %" PRIu64,
				 have, size);
	return 0;
}

static int pass_range_bytes(struct http_sink *sink,
			    const struct http_response *resp, const void *data,
			    size_t len, struct error *err)
{
	struct oci_range *g = container_of(sink, struct oci_range, sink);
	const char *p = data;

	if (!g->started)
		g->refused = check_range_begin(g, resp, err);
	if (g->refused < 0)
		return g->refused;
	if (g->skip >= len) {
		g->skip -= len;
		return 0;
	}
	p += g->skip;
	len -= (size_t)g->skip;
	g->skip = 0;
	/* More than was wanted is coming: stop, at the price of a connection. */
	if (g->next == g->end)
		return HTTP_STOP;
	if (len > g->end - g->next)
		len = (size_t)(g->end - g->next);
	g->refused = g->to->put(g->to, g->next, p, len, err);
	if (g->refused < 0)
		return g->refused;
	g->next += len;
	return 0;
}

/* Where a blob was found last, a copy. */
struct moved {
	char *url, *referer; /* or NULL */
	struct registry *by;
};

static void blob_location_fini(struct moved *m)
{
	free(m->url);
	free(m->referer);
}

static struct moved copy_blob_location(struct blob_source *b)
{
	struct moved m;

	(void)pthread_mutex_lock(&b->lock);
	m.url = b->moved ? strdup(b->moved) : NULL;
	m.referer = b->referer ? strdup(b->referer) : NULL;
	m.by = b->moved_by;
	(void)pthread_mutex_unlock(&b->lock);
	return m;
}

/* Takes both texts. */
static void set_blob_location(struct blob_source *b, char *url, char *referer,
			      struct registry *by)
{
	(void)pthread_mutex_lock(&b->lock);
	free(b->moved);
	free(b->referer);
	b->moved = url;
	b->referer = referer;
	b->moved_by = by;
	(void)pthread_mutex_unlock(&b->lock);
}

static void note_blob_location(struct blob_source *b,
			       struct http_response *resp, struct registry *by)
{
	AUTO_BUF line = BUF_INIT;

	if (resp->referer &&
	    buf_printf(&line, "Referer: %s", resp->referer) < 0)
		return;
	set_blob_location(b, steal_ptr(&resp->url), steal_ptr(&line.data), by);
}

/* Request the rest, of the registry or of `moved`. */
static int request_rest(struct blob_source *b, struct oci_range *g,
			struct registry_request *req, const struct moved *moved,
			struct http_response *resp, struct error *err)
{
	bool whole = g->next == 0 && g->end == b->base.size;
	struct registry_request rest = *req;
	const char *headers[3] = { NULL };
	char header[64];
	size_t n = 0;
	int rc;

	(void)snprintf(header, sizeof(header),
		       "Range: bytes=%" PRIu64 "-%" PRIu64, g->next,
		       g->end - 1);
	if (!whole)
		headers[n++] = header;
	rest.http.headers = headers;
	if (moved && moved->url) {
		headers[n++] = moved->referer;
		rest.http.url = moved->url;
	}
	g->started = false;
	rc = registry_try(b->registry, &rest, resp, err);
	req->by = rest.by;
	return rc;
}

/* A remembered place that refuses (its signature is good for minutes only) is
 * forgotten, and the registry asked again. */
static int ask_for_rest(struct blob_source *b, struct oci_range *g,
			struct registry_request *req,
			struct http_response *resp, struct error *err)
{
	struct moved moved = copy_blob_location(b);
	int rc;

	req->by = moved.by;
	rc = request_rest(b, g, req, &moved, resp, err);

	if (moved.url && rc < 0 && resp->status / 100 != 2) {
		set_blob_location(b, NULL, NULL, NULL);
		if (resp->status / 100 == 4 && resp->status != 429)
			rc = request_rest(b, g, req, NULL, resp, err);
	}
	if (resp->url && resp->status / 100 == 2)
		note_blob_location(b, resp, req->by);
	blob_location_fini(&moved);
	return rc;
}

/* A registry, or the load balancer before it, that is started again refuses
 * connections, resets them, or answers with 502 or 503 for a while; one with too much
 * to do is silent.  A reader with a deadline waits for all of that until then. */
static unsigned int max_attempts(const struct blob_source *b,
				 const struct registry_request *req)
{
	return req->http.deadline_ns ? UINT_MAX : b->registry->cfg.attempts;
}

/* New bytes that tell a link which many share from one that gets nowhere. */
static uint64_t min_bytes_before_stall(const struct oci_config *cfg)
{
	uint64_t least = cfg->least_rate * cfg->stall_timeout_ms / 1000;

	return least ? least : HUNG_MIN;
}

/* The deadline came while the registry was waited for; `err` keeps the reason. */
static int set_waited_in_vain_error(struct error *err)
{
	const struct error why = *err;

	return error_set(err, ETIMEDOUT,
			 "not read in the time that a read has (bootseerd: "
			 "--read-timeout): %s",
			 why.msg);
}

/* Wait before attempt `n` + 1 of a read that failed for `rc`; 0, or what the read
 * fails with. */
static int wait_for_registry(const struct blob_source *b, unsigned int n,
			     const struct registry_request *req,
			     const struct http_response *resp, int rc,
			     bool *waited, struct error *err)
{
	struct oci_watch *watch = b->registry->cfg.watch;
	int late;

	if (n >= max_attempts(b, req) || !registry_can_retry(rc, resp->status))
		return rc;
	/* A single failure is a connection that was closed. */
	if (n == WATCHED_FAILURES && watch && !*waited) {
		*waited = true;
		watch->waits(watch, b->registry->host, err);
	}
	late = registry_wait(b->registry, n, req, resp);
	if (late == 0)
		return 0;
	return late == -ETIMEDOUT ? set_waited_in_vain_error(err) : rc;
}

static int read_range(struct blob_source *b, struct oci_range *g,
		      struct registry_request *req, struct http_response *resp,
		      bool *waited, struct error *err)
{
	unsigned int n = 0;
	uint64_t mark = g->next;

	for (;;) {
		int rc = ask_for_rest(b, g, req, resp, err);

		if (g->next == g->end)
			return 0;
		if (g->refused < 0)
			return g->refused;
		if (rc == 0)
			rc = error_set(err, EIO,
				       "the registry's answer ends at byte "
				       "%" PRIu64,
				       g->next);
		/* The budget is for a transfer that does not get on. */
		if (g->next - mark >=
		    (rc == -ETIMEDOUT
			     ? min_bytes_before_stall(&b->registry->cfg)
			     : PROGRESS_MIN)) {
			mark = g->next;
			n = 0;
		}
		rc = wait_for_registry(b, ++n, req, resp, rc, waited, err);
		if (rc < 0)
			return rc;
	}
}

/* The same, and tell whoever watches the registry. */
static int read_range_and_tell_watch(struct blob_source *b, struct oci_range *g,
				     struct registry_request *req,
				     struct error *err)
{
	struct http_response resp = HTTP_RESPONSE_INIT;
	struct oci_watch *watch = b->registry->cfg.watch;
	struct error own = ERROR_INIT;
	bool waited = false;
	int rc = read_range(b, g, req, &resp, &waited, err ? err : &own);

	http_response_fini(&resp);
	if (watch)
		watch->ended(watch, b->registry->host, waited, rc == 0);
	return rc;
}

static int blob_read(struct source *s, const struct source_req *req,
		     struct source_sink *sink, struct error *err)
{
	struct blob_source *b = container_of(s, struct blob_source, base);
	char name[DIGEST_STR_MAX], what[DIGEST_STR_MAX + 8];
	AUTO_BUF path = BUF_INIT;
	struct oci_range g = {
		.sink.put = pass_range_bytes,
		.to = sink,
		.next = req->off,
		.end = req->off + req->len,
		.blob = b,
	};
	struct registry_request get = {
		.http = { .method = "GET",
			  .sink = &g.sink,
			  .deadline_ns = req->deadline_ns,
			  .pace = req->pace ? req->pace
					    : b->registry->cfg.pace },
		.what = what,
		.use = REGISTRY_PULLS,
	};

	digest_format(&b->digest, name);
	(void)snprintf(what, sizeof(what), "blob %s", name);
	if (buf_printf(&path, "/blobs/%s", name) < 0)
		return error_nomem(err);
	get.http.url = path.data;
	return g.next < g.end ? read_range_and_tell_watch(b, &g, &get, err) : 0;
}

static void blob_free(struct source *s)
{
	struct blob_source *b = container_of(s, struct blob_source, base);

	registry_unref(b->registry);
	(void)pthread_mutex_destroy(&b->lock);
	free(b->moved);
	free(b->referer);
	free(b);
}

static const struct source_ops blob_ops = {
	.name = "registry",
	.read = blob_read,
	.free = blob_free,
};

int registry_open_blob(struct oci_store *s, const struct digest *d,
		       uint64_t size, struct source **ret, struct error *err)
{
	struct blob_source *b = calloc(1, sizeof(*b));

	if (!b)
		return error_nomem(err);
	b->base.ops = &blob_ops;
	b->base.size = size;
	(void)pthread_mutex_init(&b->lock, NULL);
	b->registry = registry_ref(registry_of(s));
	b->digest = *d;
	*ret = &b->base;
	return 0;
}
