// SPDX-License-Identifier: Apache-2.0
/* Client of bootseer-registry: docs/registry-api.md. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "common/fs.h"
#include "common/http.h"
#include "recorder/store_priv.h"

#define CONNECT_MS 5000
#define TOKEN_MAX 8192      /* bytes of the token's file */
#define LIST_MAX (2u << 20) /* bytes of a list */
#define LIST_LIMIT 1000     /* the most that the service gives */
#define REASON_MAX 200      /* bytes of the service's own words */
#define HEADERS_MAX 4

struct service {
	struct trace_store base;
	struct http *http;
	char *url; /* without a slash at its end */
	char *token_file, *node;
	uint32_t timeout_ms;
};

/* One request and its answer. */
struct call {
	struct http_sink sink;
	struct service *s;
	struct buf url, token;
	const char *headers[HEADERS_MAX + 1];
	size_t n_headers;
	struct http_request req;
	struct http_response resp;
	struct buf body; /* of a good answer */
};

static struct service *service_of(struct trace_store *s)
{
	return container_of(s, struct service, base);
}

/* ------------------------------------------------------------------- a call --- */

static int keep(struct http_sink *sink, const struct http_response *r,
		const void *data, size_t len, struct error *err)
{
	struct call *c = container_of(sink, struct call, sink);
	int rc = buf_append(&c->body, data, len);

	(void)r;
	if (rc == -EFBIG)
		return error_set(err, EFBIG,
				 "the answer is longer than %zu bytes",
				 c->body.limit);
	return rc < 0 ? error_nomem(err) : 0;
}

static void call_init(struct call *c, struct service *s, const char *method,
		      size_t answer_max)
{
	*c = (struct call){
		.sink.put = keep,
		.s = s,
		.req = { .method = method, .headers = c->headers },
		.resp = HTTP_RESPONSE_INIT,
		.body.limit = answer_max,
	};
	c->req.sink = &c->sink;
}

static void call_fini(struct call *c)
{
	buf_fini(&c->url);
	buf_fini(&c->token);
	buf_fini(&c->body);
	http_response_fini(&c->resp);
}

/* "/v1/traces", for all or of an image. */
static int call_path(struct call *c, const struct digest *image)
{
	char name[DIGEST_STR_MAX];

	if (!image)
		return buf_printf(&c->url, "%s/v1/traces", c->s->url);
	digest_format(image, name);
	return buf_printf(&c->url, "%s/v1/traces/%s", c->s->url, name);
}

/* "?name=value", escaped; a value of NULL is left out. */
static int call_param(struct call *c, const char *name, const char *value)
{
	int rc;

	if (!value)
		return 0;
	rc = buf_printf(&c->url, "%c%s=", strchr(c->url.data, '?') ? '&' : '?',
			name);
	for (const char *p = value; rc == 0 && *p; p++) {
		unsigned char u = (unsigned char)*p;

		rc = isalnum(u) || strchr("-._~", u)
			     ? buf_append(&c->url, p, 1)
			     : buf_printf(&c->url, "%%%02X", u);
	}
	return rc;
}

/* The token is read each time, since whoever rotates it tells nobody. */
static int add_token(struct call *c, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	size_t n;
	int rc;

	if (!c->s->token_file)
		return 0;
	rc = fs_read_file(c->s->token_file, TOKEN_MAX, &text, err);
	if (rc < 0)
		return error_wrap(err, rc, "token of the trace service");
	for (n = text.len; n && isspace((unsigned char)text.data[n - 1]); n--)
		;
	for (size_t i = 0; i < n; i++)
		if (text.data[i] <= ' ' || text.data[i] > '~')
			n = 0;
	if (n == 0)
		return error_set(err, EINVAL,
				 "'%s' holds no token: wanted is one line",
				 c->s->token_file);
	if (buf_printf(&c->token, "Authorization: Bearer %.*s", (int)n,
		       text.data) < 0)
		return error_nomem(err);
	c->headers[c->n_headers++] = c->token.data;
	return 0;
}

/* ------------------------------------------------------------------- failure --- */

static const struct {
	long status;
	int code;
	const char *cure;
} refusals[] = {
	{ 400, EINVAL, "" },
	{ 401, EACCES,
	  "; give a token that the service knows (--token-file; "
	  "bootseerd.conf: trace-token-file)" },
	{ 403, EACCES, "; the token does not allow it" },
	{ 404, ENOENT, "" },
	{ 408, ETIMEDOUT, "" },
	{ 411, EPROTO, "" },
	{ 413, EFBIG, "; the service's --trace-max is lower" },
	{ 429, EBUSY, "; try again later" },
	{ 503, EBUSY, "; try again later" },
	{ 504, ETIMEDOUT, "" },
};

/* A stranger's text must not write to a terminal. */
static void make_printable(char *text)
{
	for (char *p = text; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = '?';
}

/* ": message" out of the service's JSON. */
static void get_reason(const struct http_response *r, char out[REASON_MAX])
{
	json_t *j = r->body.len ? json_loadb(r->body.data, r->body.len, 0, NULL)
				: NULL;
	const char *text = json_string_value(
		json_object_get(json_object_get(j, "error"), "message"));

	(void)snprintf(out, REASON_MAX, "%s%s", text ? ": " : "",
		       text ? text : "");
	make_printable(out);
	json_decref(j);
}

static int status_error(const struct call *c, struct error *err)
{
	AUTO_FREE char *after = http_header(&c->resp, "retry-after");
	char reason[REASON_MAX];
	const char *cure = "";
	int code = EIO;

	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++)
		if (refusals[i].status == c->resp.status) {
			code = refusals[i].code;
			cure = refusals[i].cure;
		}
	if (after)
		make_printable(after);
	get_reason(&c->resp, reason);
	return error_set(err, code,
			 "%s %s: the trace service answered %ld%s%s%s%.12s%s",
			 c->req.method, c->url.data, c->resp.status, reason,
			 cure, after ? " (after " : "", after ? after : "",
			 after ? " s)" : "");
}

/* Send it: 0 when the answer is a good one. */
static int call_do(struct call *c, struct error *err)
{
	int rc = add_token(c, err);

	if (rc < 0)
		return rc;
	c->req.url = c->url.data;
	c->req.deadline_ns =
		http_now_ns() + (int64_t)c->s->timeout_ms * 1000000;
	rc = http_do(c->s->http, &c->req, &c->resp, err);
	if (rc < 0)
		return error_wrap(err, rc, "trace service: %s %s",
				  c->req.method, c->url.data);
	return c->resp.status >= 200 && c->resp.status < 300
		       ? 0
		       : status_error(c, err);
}

static int bad_answer(const struct call *c, int rc, struct error *err)
{
	return error_wrap(err, rc == -EINVAL ? -EBADMSG : rc, "%s %s",
			  c->req.method, c->url.data);
}

/* ----------------------------------------------------------------------- get --- */

static int read_match(const struct call *c, enum trace_match *ret,
		      struct error *err)
{
	static const char *const names[] = {
		[TRACE_MATCH_OWN] = "own",
		[TRACE_MATCH_RELATIVE] = "relative",
		[TRACE_MATCH_WORKLOAD] = "workload",
		[TRACE_MATCH_FAR] = "far",
	};
	AUTO_FREE char *text = http_header(&c->resp, "bootseer-match");

	for (size_t i = 0; text && i < ARRAY_SIZE(names); i++)
		if (strcmp(text, names[i]) == 0) {
			*ret = (enum trace_match)i;
			return 0;
		}
	return error_set(err, EBADMSG,
			 "the answer has no Bootseer-Match that is known "
			 "here: is it a bootseer-registry?");
}

static int read_found(const struct call *c, struct trace_found *ret,
		      struct error *err)
{
	AUTO_FREE char *wanted = http_header(&c->resp, "bootseer-wanted");
	int rc = read_match(c, &ret->match, err);

	if (rc == 0)
		rc = trace_decode(c->body.data ? c->body.data : "", c->body.len,
				  &ret->trace, err);
	ret->wanted = wanted && strcmp(wanted, "1") == 0;
	return rc < 0 ? bad_answer(c, rc, err) : 0;
}

static int service_get(struct trace_store *s, const struct trace_query *q,
		       struct trace_found *ret, struct error *err)
{
	struct call c;
	int rc;

	call_init(&c, service_of(s), "GET", TRACE_BYTES_MAX);
	c.headers[c.n_headers++] = "Accept: " TRACE_MEDIA_TYPE;
	rc = call_path(&c, &q->image);
	if (rc == 0)
		rc = call_param(&c, "workload", q->workload);
	if (rc == 0)
		rc = call_param(&c, "repo", q->repo);
	if (rc == 0)
		rc = call_param(&c, "exact", q->exact ? "1" : NULL);
	rc = rc < 0 ? error_nomem(err) : call_do(&c, err);
	if (rc == 0)
		rc = read_found(&c, ret, err);
	call_fini(&c);
	return rc;
}

/* ----------------------------------------------------------------------- put --- */

static int service_put(struct trace_store *s, const struct trace *t,
		       struct error *err)
{
	const struct trace one = store_as_one_run(t);
	AUTO_BUF node = BUF_INIT;
	AUTO_BUF data = BUF_INIT;
	struct call c;
	int rc = trace_encode(&one, &data, err);

	if (rc < 0)
		return rc;
	call_init(&c, service_of(s), "POST", LIST_MAX);
	c.req.body = data.data;
	c.req.body_len = data.len;
	c.headers[c.n_headers++] = "Content-Type: " TRACE_MEDIA_TYPE;
	rc = buf_printf(&node, "Bootseer-Node: %s", c.s->node);
	c.headers[c.n_headers++] = node.data;
	if (rc == 0)
		rc = call_path(&c, &t->info.image);
	if (rc == 0)
		rc = call_param(&c, "workload", t->info.workload);
	if (rc == 0)
		rc = call_param(&c, "repo",
				*t->info.repo ? t->info.repo : NULL);
	rc = rc < 0 ? error_nomem(err) : call_do(&c, err);
	call_fini(&c);
	return rc;
}

/* ---------------------------------------------------------------------- list --- */

static int service_list(struct trace_store *s, const struct trace_query *q,
			struct trace_info **ret, size_t *ret_n,
			struct error *err)
{
	bool image = store_has_image(q);
	struct store_list l = { .infos = NULL };
	char limit[16];
	struct call c;
	int rc;

	if (!image && !q->repo)
		return error_set(err, EINVAL,
				 "the trace service lists an image or a "
				 "repository");
	call_init(&c, service_of(s), "GET", LIST_MAX);
	(void)snprintf(limit, sizeof(limit), "%d", LIST_LIMIT);
	rc = call_path(&c, image ? &q->image : NULL);
	if (rc == 0)
		rc = call_param(&c, "repo", image ? NULL : q->repo);
	if (rc == 0)
		rc = call_param(&c, "limit", limit);
	rc = rc < 0 ? error_nomem(err) : call_do(&c, err);
	if (rc == 0) {
		rc = store_list_parse(c.body.data ? c.body.data : "",
				      c.body.len, q->workload, &l, err);
		rc = rc < 0 ? bad_answer(&c, rc, err) : 0;
	}
	call_fini(&c);
	if (rc < 0) {
		store_list_fini(&l);
		return rc;
	}
	*ret = l.infos;
	*ret_n = l.n;
	return 0;
}

/* -------------------------------------------------------------------- remove --- */

static int service_remove(struct trace_store *s, const struct trace_query *q,
			  struct error *err)
{
	struct call c;
	json_t *j;
	int rc;

	call_init(&c, service_of(s), "DELETE", LIST_MAX);
	rc = call_path(&c, &q->image);
	if (rc == 0)
		rc = call_param(&c, "workload", q->workload);
	rc = rc < 0 ? error_nomem(err) : call_do(&c, err);
	if (rc == 0) {
		j = json_loadb(c.body.data ? c.body.data : "", c.body.len, 0,
			       NULL);
		if (json_integer_value(json_object_get(j, "removed")) < 1)
			rc = error_set(err, ENOENT,
				       "%s: the trace service has no such "
				       "trace",
				       c.url.data);
		json_decref(j);
	}
	call_fini(&c);
	return rc;
}

/* ---------------------------------------------------------------------- open --- */

static void service_free(struct trace_store *store)
{
	struct service *s = service_of(store);

	http_free(s->http);
	free(s->url);
	free(s->token_file);
	free(s->node);
	free(s);
}

static const struct trace_store_ops service_ops = {
	.name = "service",
	.get = service_get,
	.put = service_put,
	.list = service_list,
	.remove = service_remove,
	.free = service_free,
};

static bool starts_with(const char *s, const char *start)
{
	return strncmp(s, start, strlen(start)) == 0;
}

static int check_url(const char *url, struct error *err)
{
	const char *rest = strstr(url, "://");

	if ((!starts_with(url, "http://") && !starts_with(url, "https://")) ||
	    !rest[3] || strpbrk(url, "?#@ "))
		return error_set(err, EINVAL,
				 "'%s' is no address of a trace service: "
				 "wanted is https://HOST[:PORT]",
				 url);
	return 0;
}

/* A name that can be sent: docs/registry-api.md, "Sending a recording". */
static int check_node(const char *node, struct error *err)
{
	for (const char *p = node; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("._-", *p))
			return error_set(err, EINVAL,
					 "'%s' is no name of a node: wanted "
					 "are letters, digits, '.', '_', '-'",
					 node);
	return *node ? 0
		     : error_set(err, EINVAL, "the name of the node is empty");
}

static const struct http_cures cures = {
	.plain = "give its URL as http://",
	.tls = "give its URL as https://",
	.ca = "name the authority's file: --ca-file, or trace-ca-file in "
	      "bootseerd.conf",
	.ca_file = "--ca-file (bootseerd.conf: trace-ca-file)",
};

static int service_open(struct service *s,
			const struct trace_service_config *cfg,
			struct error *err)
{
	const struct http_config http = {
		.cures = &cures,
		.ca_file = cfg->ca_file,
		.allow_plain = starts_with(cfg->url, "http://"),
		.connect_timeout_ms = cfg->timeout_ms < CONNECT_MS
					      ? cfg->timeout_ms
					      : CONNECT_MS,
		.stall_timeout_ms = cfg->timeout_ms,
	};
	size_t n = strlen(cfg->url);

	while (n && cfg->url[n - 1] == '/')
		n--;
	s->url = strndup(cfg->url, n);
	s->node = strdup(cfg->node);
	if (cfg->token_file)
		s->token_file = strdup(cfg->token_file);
	if (!s->url || !s->node || (cfg->token_file && !s->token_file))
		return error_nomem(err);
	s->timeout_ms = cfg->timeout_ms;
	return http_new(&http, &s->http, err);
}

int trace_service_new(const struct trace_service_config *cfg,
		      struct trace_store **ret, struct error *err)
{
	struct service *s;
	int rc = check_url(cfg->url, err);

	if (rc == 0)
		rc = check_node(cfg->node, err);
	if (rc < 0)
		return rc;
	s = calloc(1, sizeof(*s));
	if (!s)
		return error_nomem(err);
	s->base.ops = &service_ops;
	rc = service_open(s, cfg, err);
	if (rc < 0) {
		service_free(&s->base);
		return rc;
	}
	*ret = &s->base;
	return 0;
}
