// SPDX-License-Identifier: Apache-2.0
/* Requests of containerd: /v2/REPOSITORY/manifests/DIGEST and .../blobs/DIGEST with ?ns=HOST. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/registry_host.h"
#include "snapshotter/node/mirror/mirror_priv.h"

static uint64_t mirror_head(void *arg, struct httpd_request *r)
{
	(void)arg;
	if (strcmp(r->peer_node, MIRROR_PEER) != 0)
		httpd_answer_error(r, HTTPD_FORBIDDEN,
				   "this is for the containerd of this node");
	else if (r->head.method != HTTPD_GET && r->head.method != HTTPD_HEAD)
		httpd_answer_error(r, HTTPD_METHOD_NOT_ALLOWED,
				   "layers can be read");
	else
		r->owner = MIRROR_PEER; /* it gives way to no stranger */
	return 0;                       /* without a body */
}

void mirror_refuse(struct httpd_request *r)
{
	httpd_answer_error(r, HTTPD_NOT_FOUND,
			   "that is for the registry to answer");
}

/* ---------------------------------------------------------------- target --- */

struct mirror_target {
	struct oci_ref ref;
	bool is_manifest;
	struct digest digest;
};

static const char *find_host(struct httpd_request *r)
{
	struct httpd_field params[HTTPD_PARAMS_MAX];
	size_t n = 0;

	if (httpd_query_parse(r->head.query, params, &n, NULL) < 0)
		return NULL;
	for (size_t k = 0; k < n; k++)
		if (strcmp(params[k].name, "ns") == 0)
			return params[k].value;
	return NULL;
}

/* The last "/KIND/" of the path, which is cut there; NULL. */
static char *cut_at(char *path, const char *kind)
{
	char *at = NULL, *next = strstr(path, kind);

	for (; next; next = strstr(next + 1, kind))
		at = next;
	if (!at)
		return NULL;
	*at = '\0';
	return at + strlen(kind);
}

/* False: it is nothing that a mirror answers. */
static bool parse_target(struct httpd_request *r, struct mirror_target *ret)
{
	char *path = r->head.path, *name;
	const char *host = find_host(r);
	AUTO_FREE char *text = NULL;

	*ret = (struct mirror_target){ .is_manifest = false };
	if (!host || !*host || registry_host_is_store(host) ||
	    httpd_decode(path) < 0 || strncmp(path, "/v2/", 4) != 0)
		return false;
	name = cut_at(path, "/blobs/");
	if (!name) {
		name = cut_at(path, "/manifests/");
		ret->is_manifest = true;
	}
	if (!name || digest_parse(name, &ret->digest, NULL) < 0)
		return false;
	if (asprintf(&text, "docker://%s/%s@%s", host, path + 4, name) < 0) {
		text = NULL;
		return false;
	}
	return oci_ref_parse(text, &ret->ref, NULL) == 0;
}

/*
 * A HEAD gets nothing: containerd resolves a name that is a digest by one, and would take a
 * layer for an image that nobody showed a login for.
 */
static void mirror_request(void *arg, struct httpd_request *r)
{
	struct mirror *m = arg;
	struct mirror_target t;
	bool is_good = r->head.method == HTTPD_GET && !m->is_ending &&
		       parse_target(r, &t);

	if (!is_good) {
		mirror_refuse(r);
		return;
	}
	if (t.is_manifest) {
		mirror_note(m, t.ref.host, t.ref.repo, &t.digest);
		mirror_refuse(r);
	} else {
		mirror_want(m, t.ref.host, t.ref.repo, &t.digest, r);
	}
	oci_ref_fini(&t.ref);
}

static void mirror_drop(void *arg, struct httpd_request *r)
{
	(void)arg;
	(void)r;
}

static int mirror_error(void *arg, int status, const char *message,
			struct buf *ret)
{
	(void)arg;
	return buf_printf(
		ret, "{\"errors\":[{\"code\":\"%s\",\"message\":\"%s\"}]}\n",
		status == HTTPD_NOT_FOUND ? "BLOB_UNKNOWN" : "DENIED", message);
}

const struct httpd_handler mirror_handler = {
	.head = mirror_head,
	.request = mirror_request,
	.drop = mirror_drop,
	.error_type = "application/json",
	.error = mirror_error,
};

/* --------------------------------------------------------------- streams --- */

static int64_t stream_read(void *arg, void *buf, size_t max)
{
	struct layer_stream *s = arg;
	struct mirror_layer *l = s->l;
	uint64_t left = s->end - s->pos;
	uint64_t n = layer_file_readable(l->p->file, s->pos,
					 left < max ? left : max);
	int rc;

	if (n == 0)
		return l->state == LAYER_FAILED ? -EIO : 0;
	rc = layer_file_read(l->p->file, s->pos, buf, (size_t)n);
	if (rc < 0)
		return rc;
	s->pos += n;
	atomic_fetch_add(&l->i->m->counts.served_bytes, n);
	return (int64_t)n;
}

static void stream_end(void *arg)
{
	struct layer_stream *s = arg;
	struct mirror_image *i = s->l->i;

	TAILQ_REMOVE(&s->l->streams, s, link);
	mirror_image_put(i);
	free(s);
}

/* "bytes=A-" and "bytes=A-B"; false: there is none, or another kind, which may be ignored. */
static bool parse_range(const char *text, uint64_t *ret_from, uint64_t *ret_to)
{
	int len = 0;

	if (!text)
		return false;
	*ret_to = UINT64_MAX;
	if (sscanf(text, "bytes=%" SCNu64 "-%n", ret_from, &len) != 1 || !len)
		return false;
	return !text[len] || (sscanf(text + len, "%" SCNu64, ret_to) == 1 &&
			      *ret_to >= *ret_from);
}

static int put_range(struct httpd_reply *reply, const struct layer_stream *s,
		     uint64_t size)
{
	reply->status = HTTPD_PARTIAL;
	return buf_printf(&reply->headers,
			  "Content-Range: bytes %" PRIu64 "-%" PRIu64
			  "/%" PRIu64 "\r\n",
			  s->pos, s->end - 1, size);
}

static int put_headers(struct httpd_reply *reply, const struct mirror_layer *l,
		       const struct layer_stream *s, bool is_range)
{
	char name[DIGEST_STR_MAX];

	digest_format(&l->p->digest, name);
	if (buf_printf(&reply->headers,
		       "Docker-Content-Digest: %s\r\nAccept-Ranges: bytes\r\n",
		       name) < 0)
		return -ENOMEM;
	return is_range ? put_range(reply, s, l->p->size) : 0;
}

void mirror_send_layer(struct mirror_layer *l, struct httpd_request *r)
{
	struct httpd_reply reply = { .status = HTTPD_OK,
				     .type = "application/octet-stream" };
	struct layer_stream *s;
	uint64_t from = 0, to = UINT64_MAX;
	bool is_range =
		parse_range(httpd_head_get(&r->head, "Range"), &from, &to);

	if (!is_range)
		to = UINT64_MAX;
	if (is_range && from >= l->p->size) {
		httpd_answer_error(r, HTTPD_RANGE, "the layer is shorter");
		return;
	}
	s = calloc(1, sizeof(*s));
	if (!s) {
		mirror_refuse(r);
		return;
	}
	s->l = l;
	s->request = r;
	s->pos = is_range ? from : 0;
	s->end = to < l->p->size ? to + 1 : l->p->size;
	if (put_headers(&reply, l, s, is_range) < 0) {
		httpd_reply_fini(&reply);
		free(s);
		mirror_refuse(r);
		return;
	}
	TAILQ_INSERT_TAIL(&l->streams, s, link);
	l->i->refs++;
	atomic_fetch_add(&l->i->m->counts.served, 1);
	reply.stream = (struct httpd_stream){ .len = s->end - s->pos,
					      .read = stream_read,
					      .end = stream_end,
					      .arg = s };
	httpd_answer(r, &reply);
}

void mirror_streams_go_on(struct mirror_layer *l)
{
	struct layer_stream *s = TAILQ_FIRST(&l->streams), *next;

	for (; s; s = next) {
		next = TAILQ_NEXT(s, link);
		httpd_more(s->request);
	}
}
