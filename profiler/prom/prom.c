// SPDX-License-Identifier: Apache-2.0
/* Requests to a server with Prometheus's HTTP API: authorization, deadlines, retries. */
#include "profiler/prom/prom.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/backoff.h"
#include "common/base64.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/json.h"
#include "common/side_by_side.h"
#include "net/http.h"
#include "net/service_client.h"
#include "net/url.h"
#include "profiler/prom/prom_priv.h"

#define AUTH_MAX 8192
#define REASON_MAX 200
#define CURE_MAX 120
#define TRIES 4
#define CONNECT_MS 5000
/* longest Retry-After of a server that is obeyed */
#define WISH_MAX_MS UINT64_C(30000)
#define POINTS_MIN 100 /* a query for fewer points is not halved */

static const struct backoff pauses = { .first_ms = 200, .most_ms = 3000 };

struct prom {
	struct http *http;
	char *url;       /* without a trailing slash */
	struct buf auth; /* the Authorization header; empty: none */
	const char *auth_option;
	struct http_cures cures;
	char ca_cure[80];
	uint32_t timeout_ms;
	pthread_mutex_t lock; /* protects `warning` and `requests` */
	char warning[PROM_WARNING_MAX];
	size_t requests;
};

/* A request, and its answer as far as it was received. */
struct prom_call {
	/* path that follows the server's address, for the advice on an error 404; "": give none */
	const char *path;
	const char *json; /* body to post; NULL: a GET request */
	size_t json_len;
	struct http_sink sink;
	struct buf body;
	struct http_response head;
};

static int keep_body(struct http_sink *sink, const struct http_response *r,
		     const void *data, size_t len, struct error *err)
{
	struct prom_call *c = container_of(sink, struct prom_call, sink);
	int rc = buf_append(&c->body, data, len);

	(void)r;
	if (rc == -EFBIG)
		return error_set(err, EFBIG, "the answer is longer than %u MiB",
				 PROM_ANSWER_MAX >> 20);
	return rc < 0 ? error_nomem(err) : 0;
}

/* ------------------------------------------------------------------- failure --- */

static const struct http_refusal refusals[] = {
	{ 400, EINVAL, "" },    { 401, EACCES, "" }, { 403, EACCES, "" },
	{ 404, ENOENT, "" },    { 413, EFBIG, "" },  { 422, EFBIG, "" },
	{ 429, EBUSY, "" },     { 502, EIO, "" },    { 503, EBUSY, "" },
	{ 504, ETIMEDOUT, "" },
};

/* Write which option, or which address, would cure a refusal. */
static void write_cure(const struct prom *p, const struct prom_call *c,
		       int code, char out[CURE_MAX])
{
	out[0] = '\0';
	if (c->head.status == 401)
		(void)snprintf(out, CURE_MAX,
			       "; name its password or token: %s",
			       p->auth_option);
	else if (code == EACCES)
		(void)snprintf(out, CURE_MAX, "; %s does not allow it",
			       p->auth_option);
	else if (code == ENOENT && *c->path)
		(void)snprintf(out, CURE_MAX,
			       "; name its address up to what stands before %s",
			       c->path);
}

static int status_error(const struct prom *p, const struct prom_call *c,
			struct error *err)
{
	char reason[REASON_MAX], cure[CURE_MAX];
	const struct http_refusal refusal =
		http_refusal_of(refusals, ARRAY_SIZE(refusals), c->head.status);

	prom_answer_reason(c->head.body.data, c->head.body.len, reason,
			   sizeof(reason));
	write_cure(p, c, refusal.code, cure);
	return error_set(err, refusal.code, "%s answered %ld%s%s", p->url,
			 c->head.status, reason, cure);
}

static bool prom_error_is_passing(int rc)
{
	return rc == -EIO || rc == -EBUSY || rc == -ECONNREFUSED;
}

/* ---------------------------------------------------------------------- call --- */

static int send_once(struct prom *p, const char *url, struct prom_call *c,
		     struct error *err)
{
	const char *headers[] = { "Accept: application/json",
				  "Content-Type: application/json",
				  p->auth.len ? p->auth.data : NULL, NULL };
	struct http_request req = {
		.method = c->json ? "POST" : "GET",
		.url = url,
		.body = c->json,
		.body_len = c->json_len,
		.stays = c->json,
		.headers = headers,
		.sink = &c->sink,
		.deadline_ns =
			clock_now_ns() + (int64_t)p->timeout_ms * NS_PER_MS,
	};
	int rc;

	buf_reset(&c->body);
	(void)pthread_mutex_lock(&p->lock);
	p->requests++;
	(void)pthread_mutex_unlock(&p->lock);
	rc = http_do(p->http, &req, &c->head, err);
	if (rc < 0)
		return error_wrap(err, rc, "%s", p->url);
	return c->head.status >= 200 && c->head.status < 300
		       ? 0
		       : status_error(p, c, err);
}

static int send_until_answered(struct prom *p, const char *url,
			       struct prom_call *c, struct error *err)
{
	int rc = -EIO;

	for (unsigned int i = 1; i <= TRIES; i++) {
		uint64_t wish;

		rc = send_once(p, url, c, err);
		if (!prom_error_is_passing(rc) || i == TRIES)
			break;
		wish = http_retry_after_ms(&c->head);
		(void)backoff_wait(clock_now_ns() +
					   backoff_ns(&pauses, i,
						      wish < WISH_MAX_MS
							      ? wish
							      : WISH_MAX_MS),
				   NULL);
	}
	return rc;
}

typedef int prom_read_fn(const char *text, size_t len,
			 char warning[PROM_WARNING_MAX], json_t **ret,
			 struct error *err);

/* Send a query, and get its array as `read` extracts it; the caller owns `*ret`. */
static int ask_answer(struct prom *p, const char *url, prom_read_fn *read,
		      json_t **ret, struct error *err)
{
	struct prom_call c = { .path = "/api/v1",
			       .sink.put = keep_body,
			       .body = { .limit = PROM_ANSWER_MAX },
			       .head = HTTP_RESPONSE_INIT };
	char warning[PROM_WARNING_MAX] = "";
	int rc = send_until_answered(p, url, &c, err);

	if (rc == 0) {
		rc = read(c.body.data, c.body.len, warning, ret, err);
		if (rc < 0)
			rc = error_wrap(err, rc, "%s", p->url);
	}
	if (warning[0]) {
		(void)pthread_mutex_lock(&p->lock);
		if (!p->warning[0])
			memcpy(p->warning, warning, sizeof(p->warning));
		(void)pthread_mutex_unlock(&p->lock);
	}
	buf_fini(&c.body);
	http_response_fini(&c.head);
	return rc;
}

int prom_post(struct prom *p, const char *path, const char *json, size_t len,
	      struct error *err)
{
	struct prom_call c = { .path = path,
			       .json = json,
			       .json_len = len,
			       .sink.put = keep_body,
			       .body = { .limit = PROM_ANSWER_MAX },
			       .head = HTTP_RESPONSE_INIT };
	AUTO_BUF url = BUF_INIT;
	int rc = buf_printf(&url, "%s%s", p->url, path) < 0
			 ? error_nomem(err)
			 : send_until_answered(p, url.data, &c, err);

	buf_fini(&c.body);
	http_response_fini(&c.head);
	return rc;
}

/* Build "URL/api/v1/query?query=...&timeout=...". */
static int build_url(const struct prom *p, const char *call, const char *query,
		     struct buf *url, struct error *err)
{
	char timeout[32];

	(void)snprintf(timeout, sizeof(timeout), "%" PRIu32 "ms",
		       p->timeout_ms);
	if (buf_printf(url, "%s/api/v1/%s", p->url, call) < 0 ||
	    service_client_param(url, "query", query) < 0 ||
	    service_client_param(url, "timeout", timeout) < 0)
		return error_nomem(err);
	return 0;
}

/* --------------------------------------------------------------------- range --- */

struct prom_grid {
	struct prom *prom;
	const char *query;
	int64_t begin_s;
	uint32_t step_s;
	size_t n, n_min; /* a range of n_min points is not halved further */
	/* index of its first value in the rows that are filled */
	size_t first;
	double *v;
	/* fill the rows of these nodes; NULL: fill `v` */
	const struct prom_nodes *nodes;
};

static int ask_grid(const struct prom_grid *g, struct error *err)
{
	int64_t end_s = g->begin_s + (int64_t)(g->n - 1) * g->step_s;
	AUTO_BUF url = BUF_INIT;
	AUTO_JSON *series = NULL;
	int rc = build_url(g->prom, "query_range", g->query, &url, err);

	if (rc == 0 &&
	    buf_printf(&url, "&start=%" PRId64 "&end=%" PRId64 "&step=%" PRIu32,
		       g->begin_s, end_s, g->step_s) < 0)
		rc = error_nomem(err);
	if (rc == 0)
		rc = ask_answer(g->prom, url.data, prom_answer_read, &series,
				err);
	if (rc < 0)
		return rc;
	if (g->nodes)
		return prom_answer_fill_nodes(series, g->nodes, g->begin_s,
					      g->n, g->first, err);
	return prom_answer_fill(series, g->begin_s, g->step_s, g->n,
				g->v + g->first, err);
}

/* If the server refuses so many samples at once, ask for halves of the range. */
static int ask_halves(struct prom_grid g, struct error *err)
{
	size_t left = g.n, now = g.n;

	while (left) {
		int rc;

		g.n = now < left ? now : left;
		rc = ask_grid(&g, err);
		if ((rc == -EFBIG || rc == -ETIMEDOUT || rc == -EBUSY) &&
		    g.n > g.n_min) {
			now = g.n / 2;
			continue;
		}
		if (rc < 0)
			return rc;
		left -= g.n;
		g.first += g.n;
		g.begin_s += (int64_t)g.n * g.step_s;
	}
	return 0;
}

static int ask_share_of_grid(void *arg, unsigned int index, struct error *err)
{
	const struct prom_grid *all = arg;
	int rc = 0;

	for (size_t at = (size_t)index * PROM_POINTS_MAX;
	     rc == 0 && at < all->n;
	     at += (size_t)PROM_PARALLEL * PROM_POINTS_MAX) {
		struct prom_grid g = *all;

		g.begin_s += (int64_t)at * g.step_s;
		g.first = at;
		g.n = all->n - at < PROM_POINTS_MAX ? all->n - at
						    : PROM_POINTS_MAX;
		rc = ask_halves(g, err);
	}
	return rc;
}

int prom_range(struct prom *p, const char *query, int64_t begin_s,
	       uint32_t step_s, size_t n, double *v, struct error *err)
{
	struct prom_grid g = { .prom = p,
			       .query = query,
			       .begin_s = begin_s,
			       .step_s = step_s,
			       .n = n,
			       .n_min = POINTS_MIN,
			       .v = v };

	for (size_t i = 0; i < n; i++)
		v[i] = (double)NAN;
	return side_by_side(PROM_PARALLEL, ask_share_of_grid, &g, err);
}

int prom_ask_nodes(struct prom *p, const struct prom_nodes *q,
		   struct error *err)
{
	const struct prom_grid g = { .prom = p,
				     .query = q->query,
				     .begin_s = q->begin_s,
				     .step_s = q->step_s,
				     .n = q->n,
				     .n_min = 1,
				     .nodes = q };

	return ask_halves(g, err);
}

int prom_samples(struct prom *p, const struct prom_samples *s,
		 prom_series_fn *fn, void *arg, struct error *err)
{
	AUTO_BUF url = BUF_INIT, query = BUF_INIT;
	AUTO_JSON *series = NULL;
	int rc;

	if (buf_printf(&query, "%s[%" PRIu32 "s]", s->selector, s->length_s) <
	    0)
		return error_nomem(err);
	rc = build_url(p, "query", query.data, &url, err);
	if (rc == 0 && buf_printf(&url, "&time=%.3f", s->end_s) < 0)
		rc = error_nomem(err);
	if (rc == 0)
		rc = ask_answer(p, url.data, prom_answer_read, &series, err);
	return rc < 0 ? rc : prom_answer_each(series, s, fn, arg, err);
}

int prom_each_name(struct prom *p, const char *match, int64_t from_s,
		   int64_t to_s, prom_name_fn *fn, void *arg, struct error *err)
{
	AUTO_BUF url = BUF_INIT, selector = BUF_INIT;
	AUTO_JSON *names = NULL;
	const json_t *name;
	size_t i;
	int rc = buf_printf(&url,
			    "%s/api/v1/label/__name__/values?start=%" PRId64
			    "&end=%" PRId64,
			    p->url, from_s, to_s);

	if (rc == 0 && match)
		rc = buf_printf(&selector, "{%s}", match);
	if (rc == 0 && match)
		rc = service_client_param(&url, "match%5B%5D", selector.data);
	rc = rc < 0 ? error_nomem(err)
		    : ask_answer(p, url.data, prom_answer_read_names, &names,
				 err);
	if (rc < 0)
		return rc;
	json_array_foreach(names, i, name)
	{
		const char *text = json_string_value(name);

		rc = text ? fn(arg, text, err) : 0;
		if (rc != 0)
			break;
	}
	return rc;
}

/* ---------------------------------------------------------------------- open --- */

static int check_url(const struct prom_config *cfg, struct error *err)
{
	struct url u = { .scheme = NULL };
	bool ok = url_is_http(cfg->url) && url_parse(cfg->url, &u) == 0 &&
		  !u.query && !u.has_fragment && !u.has_user;

	url_fini(&u);
	if (!ok)
		return error_set(err, EINVAL,
				 "'%s' is no address of a server: wanted "
				 "is https://HOST[:PORT][/PREFIX]",
				 cfg->url);
	if (cfg->auth_file && !url_is_secret(cfg->url) &&
	    !url_is_loopback(cfg->url))
		return error_set(err, EINVAL,
				 "'%s' would get %s in the clear: say https://",
				 cfg->url, cfg->auth_option);
	return 0;
}

/* Make the Authorization header from a file with a line "TOKEN" or "USER:PASSWORD". */
static int read_auth(const char *path, struct buf *ret, struct error *err)
{
	AUTO_BUF text = BUF_SECRET_INIT;
	size_t n;
	int rc = fs_read_file(path, AUTH_MAX, &text, err);

	if (rc < 0)
		return error_wrap(err, rc, "password or token");
	for (n = text.len; n && isspace((unsigned char)text.data[n - 1]); n--)
		;
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)text.data[i] < ' ' || text.data[i] == 0x7f)
			n = 0;
	if (n == 0)
		return error_set(err, EINVAL,
				 "'%s' holds neither a token nor "
				 "USER:PASSWORD: wanted is one line",
				 path);
	if (!memchr(text.data, ':', n))
		rc = buf_printf(ret, "Authorization: Bearer %.*s", (int)n,
				text.data);
	else {
		rc = buf_puts(ret, "Authorization: Basic ");
		if (rc == 0)
			rc = base64_encode(text.data, n, ret);
	}
	return rc < 0 ? error_nomem(err) : 0;
}

static int open_http(struct prom *p, const struct prom_config *cfg,
		     struct error *err)
{
	const struct http_config http = {
		.cures = &p->cures,
		.ca_file = cfg->ca_file,
		.allow_plain = !url_is_secret(cfg->url),
		/* Requests to this machine do not use a proxy. */
		.is_direct = url_is_loopback(cfg->url),
		.connect_timeout_ms = cfg->timeout_ms < CONNECT_MS
					      ? cfg->timeout_ms
					      : CONNECT_MS,
		.stall_timeout_ms = cfg->timeout_ms,
	};

	(void)snprintf(p->ca_cure, sizeof(p->ca_cure),
		       "name the authority's file: %s", cfg->ca_option);
	p->cures = (struct http_cures){ .plain = "give its URL as http://",
					.tls = "give its URL as https://",
					.ca = p->ca_cure,
					.ca_file = cfg->ca_option,
					.proxy = HTTP_CURE_PROXY };
	return http_new(&http, &p->http, err);
}

int prom_new(const struct prom_config *cfg, struct prom **ret,
	     struct error *err)
{
	AUTO(prom) p = NULL;
	size_t n = strlen(cfg->url);
	int rc = check_url(cfg, err);

	if (rc < 0)
		return rc;
	p = calloc(1, sizeof(*p));
	if (!p)
		return error_nomem(err);
	(void)pthread_mutex_init(&p->lock, NULL);
	p->auth = (struct buf)BUF_SECRET_INIT;
	p->auth_option = cfg->auth_option;
	p->timeout_ms = cfg->timeout_ms;
	while (n && cfg->url[n - 1] == '/')
		n--;
	p->url = strndup(cfg->url, n);
	if (!p->url)
		return error_nomem(err);
	if (cfg->auth_file)
		rc = read_auth(cfg->auth_file, &p->auth, err);
	if (rc == 0)
		rc = open_http(p, cfg, err);
	if (rc < 0)
		return rc;
	*ret = steal_ptr(&p);
	return 0;
}

void prom_free(struct prom *p)
{
	if (!p)
		return;
	http_free(p->http);
	buf_fini(&p->auth);
	free(p->url);
	(void)pthread_mutex_destroy(&p->lock);
	free(p);
}

const char *prom_warning(const struct prom *p)
{
	return p->warning;
}

size_t prom_requests(const struct prom *p)
{
	return p->requests;
}
