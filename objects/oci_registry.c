// SPDX-License-Identifier: Apache-2.0
/* One repository of a registry: requests with login and retries. */
#include "objects/oci_registry.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/backoff.h"
#include "common/clock.h"
#include "common/cond.h"
#include "net/url.h"
#include "objects/oci_json.h"

#define RETRY_AFTER_MAX_MS 60000
#define LAST_CHANCE_NS NS_PER_S     /* before a deadline: time for an answer */
#define ANSWER_MAX_NS 60000000000LL /* of a request without a blob */
#define REASON_MAX 120 /* bytes of a stranger's text in a message */

struct registry *registry_of(struct oci_store *s)
{
	return container_of(s, struct registry, base);
}

struct registry *registry_ref(struct registry *r)
{
	atomic_fetch_add(&r->refs, 1);
	return r;
}

void registry_unref(struct registry *r)
{
	if (atomic_fetch_sub(&r->refs, 1) != 1)
		return;
	if (r->whole) {
		registry_unref(r->whole);
		free(r);
		return;
	}
	http_free(r->http);
	(void)pthread_cond_destroy(&r->logged_in);
	(void)pthread_mutex_destroy(&r->lock);
	free(r->login.authorization);
	free(r->login.challenge);
	free(r->auth_file);
	free(r->host);
	free(r->repo);
	free(r->url);
	free(r->origin);
	free(r);
}

struct registry *registry_whole(struct registry *r)
{
	return r->whole ? r->whole : r;
}

/* -------------------------------------------------------------- requests --- */

/* Credentials are the registry's: where it sends us, for an upload or by a
 * redirect, they are not shown; nor does another host say where to log in.  An
 * origin is all of scheme, host and port. */
static bool is_own_url(const struct registry *r, const char *url)
{
	return url_is_same_origin(r->url, url);
}

/* Did the registry give this answer, and no host that it led to? */
static bool is_own_answer(const struct registry *r, const char *url,
			  const struct http_response *resp)
{
	return is_own_url(r, resp->url ? resp->url : url);
}

static int refused_elsewhere(const char *url, struct error *err)
{
	struct url u = { .scheme = NULL };
	const char *host = url_parse(url, &u) == 0 ? u.host : url;
	int rc =
		error_set(err, EACCES,
			  "the registry leads to another host, '%.100s%s%.5s', "
			  "which wants a login: the registry's is not shown to "
			  "it",
			  host, u.port ? ":" : "", u.port ? u.port : "");

	url_fini(&u);
	return rc;
}

static bool is_question(const struct http_request *req)
{
	return !req->sink && (strcmp(req->method, "GET") == 0 ||
			      strcmp(req->method, "HEAD") == 0);
}

static int send_once(struct registry *r, const struct registry_request *req,
		     const char *url, const char *authorization,
		     struct http_response *resp, struct error *err)
{
	const char *headers[REGISTRY_HEADERS_MAX + 2] = { NULL };
	struct http_request http = req->http;
	size_t n = 0;

	for (; http.headers && http.headers[n] && n < REGISTRY_HEADERS_MAX; n++)
		headers[n] = http.headers[n];
	headers[n] = authorization;
	http.headers = headers;
	http.url = url;
	/* Short answers; how long blobs take, to come or to be checked behind
	 * an upload, nobody knows beforehand. */
	if (is_question(&http) && !http.deadline_ns)
		http.deadline_ns = clock_now_ns() + ANSWER_MAX_NS;
	return http_do(r->http, &http, resp, err);
}

static bool is_good(const struct registry_request *req, long status)
{
	if (req->accept)
		return req->accept(status);
	return status >= 200 && status < 300;
}

bool registry_can_retry(int rc, long status)
{
	switch (status) {
	case 408:
	case 425:
	case 429:
		return true;
	case 501: /* the server does not know this kind of request */
	case 505:
		return false;
	default:
		/* Faults of a server, or of a proxy or load balancer before it
		 * (502, 503, 504, and 520 to 530 of some), pass. */
		if (status >= 500)
			return true;
		/* Without a status, or cut off behind a good one. */
		return (rc == -ETIMEDOUT || rc == -EIO ||
			rc == -ECONNREFUSED) &&
		       status < 300;
	}
}

static const struct {
	long status;
	int code;
	const char *cure;
} refusals[] = {
	{ 401, EACCES,
	  ": log in to the registry (docker login, skopeo login) or name a "
	  "file with --auth-file (bootseerd.conf: auth-file)" },
	{ 403, EACCES,
	  ": these credentials do not allow it: use others (--auth-file; "
	  "bootseerd.conf: auth-file) or ask for the right" },
	{ 404, ENOENT,
	  ": it is not there: check name, tag and digest ('bootseer image ls' "
	  "lists tags)" },
	{ 405, ENOTSUP,
	  ": the registry does not allow it (deleting may have to be enabled "
	  "in its configuration)" },
	{ 408, ETIMEDOUT, "" },
	{ 413, EFBIG, ": it is too large for this registry" },
	{ 416, ERANGE, "" },
	{ 429, EBUSY,
	  ": too many requests: try again later; a login may have a higher "
	  "limit" },
	{ 504, ETIMEDOUT, "" },
};

/* Text of a stranger for a person's terminal. */
static void append_printable(struct buf *b, const char *text)
{
	for (size_t i = 0; text && text[i] && i < REASON_MAX; i++) {
		char c = (unsigned char)text[i] < 0x20 || text[i] == 0x7f
				 ? '?'
				 : text[i];

		if (buf_append(b, &c, 1) < 0)
			return;
	}
}

/* "CODE message" out of the registry's JSON, or nothing. */
static void get_reason(const struct http_response *resp, struct buf *ret)
{
	const json_t *first;
	json_t *j;

	if (resp->body.len == 0 ||
	    bounded_json_load(resp->body.data, resp->body.len, "", &j, NULL) <
		    0)
		return;
	first = json_array_get(json_object_get(j, "errors"), 0);
	append_printable(ret,
			 json_string_value(json_object_get(first, "code")));
	append_printable(ret, ret->len ? " " : NULL);
	append_printable(ret,
			 json_string_value(json_object_get(first, "message")));
	json_decref(j);
}

/* What Go, nginx and Apache tell those who come without TLS. */
static bool wants_tls(const struct http_response *resp)
{
	return resp->status == 400 && resp->body.data &&
	       (strstr(resp->body.data, "HTTPS ") ||
		strstr(resp->body.data, "SSL-enabled"));
}

int registry_status_error(const struct http_response *resp, struct error *err)
{
	AUTO_BUF reason = BUF_INIT;
	const char *cure = "";
	int code = EIO;

	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++)
		if (refusals[i].status == resp->status) {
			code = refusals[i].code;
			cure = refusals[i].cure;
		}
	if (wants_tls(resp))
		cure = ": it speaks TLS: leave out --plain-http "
		       "(bootseerd.conf: plain-http)";
	get_reason(resp, &reason);
	return error_set(err, code, "the registry answered %ld%s%s%s%s",
			 resp->status, reason.len ? " (" : "",
			 reason.len ? reason.data : "", reason.len ? ")" : "",
			 cure);
}

/* What the registry asks for, in seconds (RFC 9110, 10.2.3); 0 when it does
 * not.  The form with a date is not honoured. */
static uint64_t retry_after_ms(const struct http_response *resp)
{
	AUTO_FREE char *after = resp ? http_header(resp, "retry-after") : NULL;
	uint64_t ms = after ? strtoull(after, NULL, 10) : 0;

	ms = ms < RETRY_AFTER_MAX_MS / 1000 ? ms * 1000 : RETRY_AFTER_MAX_MS;
	return after ? ms : 0;
}

int registry_back_off(unsigned int n, const struct http_response *resp,
		      int64_t deadline_ns, struct pace *pace)
{
	static const struct backoff backoff = { .first_ms = 100,
						.most_ms = 5000 };
	int64_t now = clock_now_ns();
	int64_t until = now + backoff_ns(&backoff, n, retry_after_ms(resp));

	if (deadline_ns && now >= deadline_ns - LAST_CHANCE_NS)
		return -ETIMEDOUT;
	if (deadline_ns && until > deadline_ns - LAST_CHANCE_NS)
		until = deadline_ns - LAST_CHANCE_NS;
	return backoff_wait(until, pace);
}

int registry_wait(struct registry *r, unsigned int n,
		  const struct registry_request *req,
		  const struct http_response *resp)
{
	struct oci_watch *w = r->cfg.watch;
	bool is_throttled = resp->status == 429 || retry_after_ms(resp) > 0;
	int rc;

	if (w)
		w->backs_off(w, r->host, is_throttled, false);
	rc = registry_back_off(n, resp, req->http.deadline_ns, req->http.pace);
	if (w)
		w->backs_off(w, r->host, is_throttled, true);
	return rc;
}

static bool asks_for_login(const struct http_response *resp)
{
	AUTO_FREE char *header = http_header(resp, "www-authenticate");

	return header;
}

static int attempt(struct registry *r, struct registry_request *req,
		   struct http_response *resp, struct error *err)
{
	AUTO_BUF url = BUF_INIT;
	bool own;

	if (req->http.url[0] == '/' && buf_puts(&url, r->url) < 0)
		return error_nomem(err);
	if (buf_puts(&url, req->http.url) < 0)
		return error_nomem(err);
	own = is_own_url(r, url.data);
	for (int n_logins = 0;; n_logins++) {
		AUTO_FREE char *login_line = NULL;
		unsigned int used = 0;
		int rc;

		if (own)
			login_line = registry_login_line(r, &used);
		rc = send_once(r, req, url.data, login_line, resp, err);
		if (rc < 0 || !registry_is_refusal(resp) ||
		    (resp->status == 401 && is_good(req, 401) &&
		     !asks_for_login(resp))) {
			if (rc == 0 && login_line && resp->status / 100 == 2)
				registry_login_worked(r, used);
			return rc;
		}
		if (!is_own_answer(r, url.data, resp))
			return resp->status != 401
				       ? rc
				       : refused_elsewhere(resp->url ? resp->url
								     : url.data,
							   err);
		if (!registry_may_log_in(r, resp, used, n_logins)) {
			/* Some answer 403 to what they do not have. */
			if (!is_good(req, resp->status))
				registry_login_refused(r, resp);
			return rc;
		}
		/* Only who shows nothing is told how to log in. */
		if (login_line && resp->status != 401) {
			registry_login_drop(r, used);
			n_logins--;
			continue;
		}
		rc = registry_log_in(r, resp, used, req->http.pace, err);
		if (rc < 0) {
			/* The token service is down: that may pass. */
			resp->status = 0;
			return rc;
		}
	}
}

static int attempts(struct registry *r, struct registry_request *req,
		    unsigned int max, struct http_response *resp,
		    struct error *err)
{
	int rc = 0;

	if (!req->http.pace)
		req->http.pace = r->cfg.pace;
	for (unsigned int n = 1;; n++) {
		rc = attempt(r, req, resp, err);
		if (rc == 0 && is_good(req, resp->status))
			return 0;
		if (n >= max || !registry_can_retry(rc, resp->status) ||
		    registry_wait(r, n, req, resp) < 0)
			break;
	}
	if (rc == 0)
		rc = registry_status_error(resp, err);
	else if (rc == -ECONNREFUSED)
		rc = -EIO; /* oci.h knows no finer reason */
	return error_wrap(err, rc, "%s/%s: %s", r->host, r->repo, req->what);
}

int registry_do(struct registry *r, struct registry_request *req,
		struct http_response *resp, struct error *err)
{
	return attempts(r, req, r->cfg.attempts, resp, err);
}

int registry_try(struct registry *r, struct registry_request *req,
		 struct http_response *resp, struct error *err)
{
	return attempts(r, req, 1, resp, err);
}

/* ------------------------------------------------------------------ open --- */

/* The manifest is read for it: a token may be over, or of another right. */
static int registry_authorization(struct oci_store *s, const struct digest *d,
				  struct pace *pace, char **ret,
				  struct error *err)
{
	static const char name[] = "Authorization: ";
	struct oci_manifest m = { .body = BUF_INIT };
	struct registry *r = registry_of(s);
	AUTO_FREE char *line = NULL;
	char ref[DIGEST_STR_MAX];
	unsigned int generation;
	int rc;

	digest_format(d, ref);
	rc = registry_read_manifest(s, ref, pace, &m, err);
	oci_manifest_fini(&m);
	if (rc < 0)
		return rc;
	line = registry_login_line(r, &generation);
	if (!line || strncasecmp(line, name, strlen(name)) != 0)
		return 0;
	*ret = strdup(line + strlen(name));
	return *ret ? 0 : error_nomem(err);
}

static int registry_with_pace(struct oci_store *s, struct pace *pace,
			      struct oci_store **ret, struct error *err)
{
	struct registry *r = registry_whole(registry_of(s));
	struct registry *part = calloc(1, sizeof(*part));

	if (!part)
		return error_nomem(err);
	part->base.ops = r->base.ops;
	atomic_init(&part->refs, 1);
	part->whole = registry_ref(r);
	part->http = r->http;
	part->auth_file = r->auth_file;
	part->host = r->host;
	part->repo = r->repo;
	part->url = r->url;
	part->origin = r->origin;
	part->cfg = r->cfg;
	part->cfg.pace = pace;
	*ret = &part->base;
	return 0;
}

static void registry_free(struct oci_store *s)
{
	registry_unref(registry_of(s));
}

static const struct oci_store_ops registry_ops = {
	.name = "registry",
	.get_manifest = registry_get_manifest,
	.open_blob = registry_open_blob,
	.find_blob = registry_find_blob,
	.put_blob = registry_put_blob,
	.put_manifest = registry_put_manifest,
	.remove_manifest = registry_remove_manifest,
	.list_tags = registry_list_tags,
	.list_referrers = registry_list_referrers,
	.list_noted = registry_list_noted,
	.with_pace = registry_with_pace,
	.authorization = registry_authorization,
	.free = registry_free,
};

/* docker's own registry answers under another name. */
static const char *api_host(const char *host)
{
	return strcmp(host, "docker.io") == 0 ? "registry-1.docker.io" : host;
}

static int fill(struct registry *r, const struct oci_ref *ref,
		const struct oci_config *cfg, struct error *err)
{
	struct http_config http = {
		.ca_file = cfg->ca_file,
		.allow_plain = cfg->plain_http,
		.tells_referer = true,
		.connect_timeout_ms = cfg->connect_timeout_ms,
		.stall_timeout_ms = cfg->stall_timeout_ms,
		.least_rate = cfg->least_rate,
		.cures = cfg->cures,
	};
	AUTO_BUF url = BUF_INIT;

	r->cfg = *cfg;
	if (r->cfg.attempts == 0)
		r->cfg.attempts = 1;
	r->cfg.auth_file = NULL;
	r->cfg.ca_file = NULL;
	if (cfg->auth_file)
		r->auth_file = strdup(cfg->auth_file);
	r->host = strdup(ref->host);
	r->repo = strdup(ref->repo);
	if (buf_printf(&url, "%s://%s/v2/%s",
		       cfg->plain_http ? "http" : "https", api_host(ref->host),
		       ref->repo) < 0 ||
	    !r->host || !r->repo || (cfg->auth_file && !r->auth_file))
		return error_nomem(err);
	r->url = buf_steal(&url);
	r->origin = strndup(r->url, strlen(r->url) - strlen(ref->repo) - 4);
	if (!r->origin)
		return error_nomem(err);
	return http_new(&http, &r->http, err);
}

int oci_registry_new(const struct oci_ref *ref, const struct oci_config *cfg,
		     bool create, struct oci_store **ret, struct error *err)
{
	struct registry *r = calloc(1, sizeof(*r));
	int rc;

	(void)create;
	if (!r)
		return error_nomem(err);
	r->base.ops = &registry_ops;
	atomic_init(&r->refs, 1);
	(void)pthread_mutex_init(&r->lock, NULL);
	cond_init(&r->logged_in);
	rc = fill(r, ref, cfg, err);
	if (rc < 0) {
		registry_unref(r);
		return rc;
	}
	*ret = &r->base;
	return 0;
}
