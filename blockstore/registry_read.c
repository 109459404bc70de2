// SPDX-License-Identifier: Apache-2.0
/* Reading from a registry: manifests, and ranges of blobs. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "blockstore/registry.h"

static const char *const manifest_headers[] = {
	"Accept: application/vnd.oci.image.index.v1+json, "
	"application/vnd.oci.image.manifest.v1+json, "
	"application/vnd.docker.distribution.manifest.list.v2+json, "
	"application/vnd.docker.distribution.manifest.v2+json",
	NULL,
};

/* The type without parameters. */
static void copy_type(const struct http_response *resp, char *out, size_t size)
{
	AUTO_FREE char *type = http_header(resp, "content-type");

	(void)snprintf(out, size, "%.*s", type ? (int)strcspn(type, "; ") : 0,
		       type ? type : "");
}

int registry_get_manifest(struct oci_store *s, const char *ref,
			  struct oci_manifest *ret, struct error *err)
{
	struct registry *r = registry_of(s);
	struct http_response resp = HTTP_RESPONSE_INIT;
	AUTO_BUF path = BUF_INIT;
	AUTO_BUF what = BUF_INIT;
	struct registry_request req = {
		.http = { .method = "GET", .headers = manifest_headers },
	};
	int rc;

	if (!ref)
		ref = "latest";
	if (buf_printf(&path, "/manifests/%s", ref) < 0 ||
	    buf_printf(&what, "manifest '%s'", ref) < 0)
		return error_nomem(err);
	req.http.url = path.data;
	req.what = what.data;
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
		copy_type(&resp, ret->media_type, sizeof(ret->media_type));
		buf_fini(&ret->body);
		ret->body = resp.body;
		resp.body = (struct buf)BUF_INIT;
	}
	http_response_fini(&resp);
	return rc;
}

static bool ok_or_missing(long status)
{
	return status == 200 || status == 404;
}

int registry_has_blob(struct oci_store *s, const struct digest *d, bool *ret,
		      struct error *err)
{
	struct http_response resp = HTTP_RESPONSE_INIT;
	char name[DIGEST_STR_MAX];
	AUTO_BUF path = BUF_INIT;
	struct registry_request req = {
		.http = { .method = "HEAD" },
		.what = name,
		.accept = ok_or_missing,
	};
	int rc;

	digest_format(d, name);
	if (buf_printf(&path, "/blobs/%s", name) < 0)
		return error_nomem(err);
	req.http.url = path.data;
	rc = registry_do(registry_of(s), &req, &resp, err);
	if (rc == 0)
		*ret = resp.status == 200;
	http_response_fini(&resp);
	return rc;
}

/* ---------------------------------------------------------------- ranges --- */

struct blob_source {
	struct source base;
	struct registry *registry;
	struct digest digest;
};

/* One read under way: passes on what is in the range and knows how far it is,
 * so that a retry asks for the rest only. */
struct range {
	struct http_sink sink;
	struct registry_request req;
	struct source_sink *to;
	struct http_response *resp;
	uint64_t next, end; /* bytes of the blob still wanted */
	uint64_t skip;      /* of this answer, when the range was ignored */
	bool started;       /* this answer's first bytes were looked at */
	char header[64];
	const char *headers[2];
	const struct blob_source *blob;
};

static void ask_for_rest(struct range *g)
{
	bool whole = g->next == 0 && g->end == g->blob->base.size;

	(void)snprintf(g->header, sizeof(g->header),
		       "Range: bytes=%" PRIu64 "-%" PRIu64, g->next,
		       g->end - 1);
	g->headers[0] = whole ? NULL : g->header;
	g->started = false;
}

static int range_again(struct registry_request *req, struct error *err)
{
	(void)err;
	ask_for_rest(container_of(req, struct range, req));
	return 0;
}

/* Where does this answer begin?  206 says so; 200 is the whole blob. */
static int range_start(struct range *g, struct error *err)
{
	AUTO_FREE char *header = http_header(g->resp, "content-range");
	uint64_t first;

	g->started = true;
	g->skip = 0;
	if (!header) {
		g->skip = g->next;
		return 0;
	}
	if (sscanf(header, "bytes %" SCNu64 "-", &first) != 1 ||
	    first != g->next)
		return error_set(err, EPROTO,
				 "the registry sent another range than was "
				 "asked for: '%.60s'",
				 header);
	return 0;
}

static int range_put(struct http_sink *sink, const void *data, size_t len,
		     struct error *err)
{
	struct range *g = container_of(sink, struct range, sink);
	const char *p = data;
	int rc = g->started ? 0 : range_start(g, err);

	if (rc < 0)
		return rc;
	if (g->skip >= len) {
		g->skip -= len;
		return 0;
	}
	p += g->skip;
	len -= (size_t)g->skip;
	g->skip = 0;
	if (len > g->end - g->next)
		len = (size_t)(g->end - g->next);
	if (len == 0)
		/* The whole blob is coming though a part was wanted. */
		return error_set(err, ECANCELED, "enough");
	rc = g->to->put(g->to, g->next, p, len, err);
	if (rc == 0)
		g->next += len;
	return rc;
}

static int blob_read(struct source *s, const struct source_req *req,
		     struct source_sink *sink, struct error *err)
{
	struct blob_source *b = container_of(s, struct blob_source, base);
	struct http_response resp = HTTP_RESPONSE_INIT;
	char name[DIGEST_STR_MAX], what[DIGEST_STR_MAX + 8];
	AUTO_BUF path = BUF_INIT;
	struct range g = {
		.sink.put = range_put,
		.to = sink,
		.resp = &resp,
		.next = req->off,
		.end = req->off + req->len,
		.blob = b,
	};
	int rc = 0;

	digest_format(&b->digest, name);
	(void)snprintf(what, sizeof(what), "blob %s", name);
	if (buf_printf(&path, "/blobs/%s", name) < 0)
		return error_nomem(err);
	g.req = (struct registry_request){
		.http = { .method = "GET",
			  .url = path.data,
			  .headers = g.headers,
			  .sink = &g.sink },
		.what = what,
		.again = range_again,
	};
	/* An answer that ended early without an error is asked to go on. */
	for (unsigned int n = 0; g.next < g.end && rc == 0; n++) {
		uint64_t before = g.next;

		ask_for_rest(&g);
		rc = registry_do(b->registry, &g.req, &resp, err);
		if (rc == 0 && g.next == before &&
		    n >= b->registry->cfg.attempts)
			rc = error_set(err, EIO,
				       "%s: the registry sends "
				       "nothing",
				       what);
	}
	if (g.next == g.end)
		rc = 0;
	http_response_fini(&resp);
	return rc;
}

static void blob_free(struct source *s)
{
	struct blob_source *b = container_of(s, struct blob_source, base);

	registry_unref(b->registry);
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
	b->registry = registry_ref(registry_of(s));
	b->digest = *d;
	*ret = &b->base;
	return 0;
}
