// SPDX-License-Identifier: Apache-2.0
#include "net/service_client.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/text.h"
#include "net/url.h"

#define CONNECT_MS 5000
#define TOKEN_MAX 8192 /* bytes of the token's file */
#define REASON_MAX 200 /* bytes of the service's own words */

struct service_client {
	struct http *http;
	char *url; /* without a slash at its end */
	char *token_file;
	uint32_t timeout_ms;
	void (*silent)(const char *url, uint32_t timeout_ms);
};

/* A request on its way. */
struct client_call {
	struct http_sink sink;
	const struct service_client *client;
	bool is_silence_told;
	struct buf *body; /* body of a successful answer */
	struct buf url, token;
	const char *headers[SERVICE_HEADERS_MAX + 2];
};

int service_client_param(struct buf *path, const char *name, const char *value)
{
	int rc;

	if (!value)
		return 0;
	rc = buf_printf(path, "%c%s=", strchr(path->data, '?') ? '&' : '?',
			name);
	for (const char *p = value; rc == 0 && *p; p++) {
		unsigned char u = (unsigned char)*p;

		rc = isalnum(u) || strchr("-._~", u)
			     ? buf_append(path, p, 1)
			     : buf_printf(path, "%%%02X", u);
	}
	return rc;
}

void service_answer_fini(struct service_answer *a)
{
	http_response_fini(&a->head);
	buf_fini(&a->body);
}

static int service_client_keep(struct http_sink *sink,
			       const struct http_response *r, const void *data,
			       size_t len, struct error *err)
{
	struct client_call *c = container_of(sink, struct client_call, sink);
	int rc = buf_append(c->body, data, len);

	(void)r;
	if (rc == -EFBIG)
		return error_set(err, EFBIG,
				 "the answer is longer than %zu bytes",
				 c->body->limit);
	return rc < 0 ? error_nomem(err) : 0;
}

/* Read the token for each request, since it may be replaced at any time. */
static int read_token(const struct service_client *s, struct client_call *c,
		      struct error *err)
{
	AUTO_BUF text = BUF_SECRET_INIT;
	size_t n;
	int rc;

	if (!s->token_file)
		return 0;
	rc = fs_read_file(s->token_file, TOKEN_MAX, &text, err);
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
				 s->token_file);
	if (buf_printf(&c->token, "Authorization: Bearer %.*s", (int)n,
		       text.data) < 0)
		return error_nomem(err);
	return 0;
}

/* ------------------------------------------------------------------- failure --- */

static const struct http_refusal refusals[] = {
	{ 400, EINVAL, "" },
	{ 401, EACCES,
	  "; give a token that the service knows (--token-file; "
	  "bootseerd.conf: service-token-file)" },
	{ 403, EACCES, "; the token does not allow it" },
	{ 404, ENOENT, "" },
	{ 408, ETIMEDOUT, "" },
	{ 411, EPROTO, "" },
	{ 413, EFBIG, "; the service takes no more" },
	{ 429, EBUSY, "; try again later" },
	{ 503, EBUSY, "; try again later" },
	{ 504, ETIMEDOUT, "" },
};

/* Get ": message" from the service's JSON. */
static void get_reason(const struct http_response *r, char out[REASON_MAX])
{
	json_t *j = r->body.len ? json_loadb(r->body.data, r->body.len, 0, NULL)
				: NULL;
	const char *text = json_string_value(
		json_object_get(json_object_get(j, "error"), "message"));

	(void)snprintf(out, REASON_MAX, "%s%s", text ? ": " : "",
		       text ? text : "");
	/* The text comes from outside, and must not send control characters to a terminal. */
	text_make_printable(out);
	json_decref(j);
}

static int status_error(const struct service_request *r,
			const struct client_call *c,
			const struct http_response *resp, struct error *err)
{
	uint64_t after_s = (http_retry_after_ms(resp) + 999) / 1000;
	char reason[REASON_MAX], after[32] = "";
	const struct http_refusal refusal =
		http_refusal_of(refusals, ARRAY_SIZE(refusals), resp->status);

	if (after_s)
		(void)snprintf(after, sizeof(after), " (after %" PRIu64 " s)",
			       after_s);
	get_reason(resp, reason);
	return error_set(err, refusal.code,
			 "%s %s: the trace service answered %ld%s%s%s",
			 r->method, c->url.data, resp->status, reason,
			 refusal.cure, after);
}

/* ---------------------------------------------------------------------- call --- */

static void client_note_silence(void *arg, int64_t ms)
{
	struct client_call *c = arg;
	const struct service_client *s = c->client;

	if (ms < SERVICE_SILENT_MS || c->is_silence_told)
		return;
	c->is_silence_told = true;
	s->silent(s->url, s->timeout_ms);
}

static int send_call(struct service_client *s, const struct service_request *r,
		     struct client_call *c, struct service_answer *ret,
		     struct error *err)
{
	struct http_request req = {
		.method = r->method,
		.url = c->url.data,
		.headers = c->headers,
		.body = r->body,
		.body_len = r->body_len,
		.sink = &c->sink,
		.deadline_ns =
			clock_now_ns() + (int64_t)s->timeout_ms * 1000000,
		.silent = s->silent ? client_note_silence : NULL,
		.silent_arg = c,
	};
	int rc = http_do(s->http, &req, &ret->head, err);

	if (rc < 0)
		return error_wrap(err, rc, "trace service: %s %s", r->method,
				  c->url.data);
	return ret->head.status >= 200 && ret->head.status < 300
		       ? 0
		       : status_error(r, c, &ret->head, err);
}

int service_client_do(struct service_client *s, const struct service_request *r,
		      struct service_answer *ret, struct error *err)
{
	struct client_call c = { .sink.put = service_client_keep,
				 .client = s,
				 .body = &ret->body,
				 .token = BUF_SECRET_INIT };
	size_t n = 0;
	int rc = read_token(s, &c, err);

	for (; n < SERVICE_HEADERS_MAX && r->headers[n]; n++)
		c.headers[n] = r->headers[n];
	if (c.token.len)
		c.headers[n] = c.token.data;
	if (rc == 0 && buf_printf(&c.url, "%s%s", s->url, r->path) < 0)
		rc = error_nomem(err);
	if (rc == 0)
		rc = send_call(s, r, &c, ret, err);
	buf_fini(&c.token);
	buf_fini(&c.url);
	return rc;
}

/* ---------------------------------------------------------------------- open --- */

static int check_url(const char *url, struct error *err)
{
	struct url u = { .scheme = NULL };
	bool ok = url_is_http(url) && url_parse(url, &u) == 0 && !u.query &&
		  !u.has_fragment && !u.has_user;

	url_fini(&u);
	if (!ok)
		return error_set(err, EINVAL,
				 "'%s' is no address of a trace service: "
				 "wanted is https://HOST[:PORT]",
				 url);
	return 0;
}

static int check_token(const struct service_client_config *cfg,
		       struct error *err)
{
	if (!cfg->token_file || cfg->plain_token || url_is_secret(cfg->url) ||
	    url_is_loopback(cfg->url))
		return 0;
	return error_set(err, EINVAL,
			 "trace service '%s' would get the token in the clear: "
			 "say https://%s%s",
			 cfg->url, cfg->plain_cure ? ", or " : "",
			 cfg->plain_cure ? cfg->plain_cure : "");
}

/* Check that the name can be sent: docs/formats/registry-api.md, "Sending a recording". */
int service_client_check_node(const char *node, struct error *err)
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
	.ca = "name the authority's file: --ca-file, or service-ca-file in "
	      "bootseerd.conf",
	.ca_file = "--ca-file (bootseerd.conf: service-ca-file)",
	.proxy = HTTP_CURE_PROXY,
};

static int open_service(struct service_client *s,
			const struct service_client_config *cfg,
			struct error *err)
{
	const struct http_config http = {
		.cures = &cures,
		.ca_file = cfg->ca_file,
		.cert_file = cfg->cert_file,
		.key_file = cfg->key_file,
		.allow_plain = !url_is_secret(cfg->url),
		/* Requests to this machine itself use no proxy. */
		.is_direct = cfg->is_direct || url_is_loopback(cfg->url),
		.connect_timeout_ms = cfg->timeout_ms < CONNECT_MS
					      ? cfg->timeout_ms
					      : CONNECT_MS,
		.stall_timeout_ms = cfg->timeout_ms,
	};
	size_t n = strlen(cfg->url);

	while (n && cfg->url[n - 1] == '/')
		n--;
	s->url = strndup(cfg->url, n);
	if (cfg->token_file)
		s->token_file = strdup(cfg->token_file);
	if (!s->url || (cfg->token_file && !s->token_file))
		return error_nomem(err);
	s->timeout_ms = cfg->timeout_ms;
	s->silent = cfg->silent;
	return http_new(&http, &s->http, err);
}

int service_client_new(const struct service_client_config *cfg,
		       struct service_client **ret, struct error *err)
{
	AUTO(service_client) s = NULL;
	int rc = check_url(cfg->url, err);

	if (rc == 0)
		rc = check_token(cfg, err);
	if (rc < 0)
		return rc;
	s = calloc(1, sizeof(*s));
	if (!s)
		return error_nomem(err);
	rc = open_service(s, cfg, err);
	if (rc < 0)
		return rc;
	*ret = steal_ptr(&s);
	return 0;
}

const char *service_client_url(const struct service_client *s)
{
	return s->url;
}

void service_client_free(struct service_client *s)
{
	if (!s)
		return;
	http_free(s->http);
	free(s->url);
	free(s->token_file);
	free(s);
}
