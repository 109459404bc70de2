// SPDX-License-Identifier: Apache-2.0
/* One repository of a registry: requests with login and retries. */
#include "blockstore/registry.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "blockstore/registry_auth.h"

#define BACKOFF_MS 100
#define BACKOFF_MAX_MS 5000
#define RETRY_AFTER_MAX_MS 30000

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
	http_free(r->http);
	(void)pthread_mutex_destroy(&r->lock);
	free(r->authorization);
	free(r->auth_file);
	free(r->host);
	free(r->repo);
	free(r->url);
	free(r);
}

/* ----------------------------------------------------------------- login --- */

static char *current_login(struct registry *r, unsigned int *generation)
{
	char *copy;

	(void)pthread_mutex_lock(&r->lock);
	copy = r->authorization ? strdup(r->authorization) : NULL;
	*generation = r->generation;
	(void)pthread_mutex_unlock(&r->lock);
	return copy;
}

/* Meet the challenge of a 401.  Another thread may have done so since the
 * request was made with `used`; then its login serves. */
static int login(struct registry *r, const struct http_response *resp,
		 unsigned int used, struct error *err)
{
	AUTO_FREE char *header = http_header(resp, "www-authenticate");
	struct credentials who = { .user = NULL };
	struct challenge c = { .realm = NULL };
	AUTO_FREE char *answer = NULL;
	int rc;

	if (!header)
		return error_set(err, EACCES,
				 "it refuses without saying how "
				 "to log in");
	(void)pthread_mutex_lock(&r->lock);
	rc = r->generation != used;
	(void)pthread_mutex_unlock(&r->lock);
	if (rc)
		return 0;
	rc = challenge_parse(header, &c, err);
	if (rc == 0)
		rc = credentials_find(r->auth_file, r->host, &who, err);
	if (rc == 0)
		rc = challenge_answer(r->http, &c, &who, &answer, err);
	challenge_fini(&c);
	credentials_fini(&who);
	if (rc < 0)
		return rc;
	(void)pthread_mutex_lock(&r->lock);
	free(r->authorization);
	r->authorization = steal_ptr(&answer);
	r->generation++;
	(void)pthread_mutex_unlock(&r->lock);
	return 0;
}

/* -------------------------------------------------------------- requests --- */

static int send_once(struct registry *r, const struct registry_request *req,
		     const char *authorization, struct http_response *resp,
		     struct error *err)
{
	const char *headers[REGISTRY_HEADERS_MAX + 2] = { NULL };
	struct http_request http = req->http;
	AUTO_BUF url = BUF_INIT;
	size_t n = 0;

	for (; http.headers && http.headers[n] && n < REGISTRY_HEADERS_MAX; n++)
		headers[n] = http.headers[n];
	headers[n] = authorization;
	http.headers = headers;
	if (http.url[0] == '/') {
		if (buf_printf(&url, "%s%s", r->url, http.url) < 0)
			return error_nomem(err);
		http.url = url.data;
	}
	return http_do(r->http, &http, resp, err);
}

static bool is_good(const struct registry_request *req, long status)
{
	if (req->accept)
		return req->accept(status);
	return status >= 200 && status < 300;
}

static bool can_retry(int rc, long status)
{
	if (rc == -ETIMEDOUT || rc == -EIO || rc == -ECONNREFUSED ||
	    rc == -EHOSTUNREACH)
		return true;
	return rc == 0 && (status == 429 || status == 408 || status >= 500);
}

static int status_code(long status)
{
	switch (status) {
	case 404:
		return ENOENT;
	case 401:
	case 403:
		return EACCES;
	case 416:
		return ERANGE;
	case 429:
		return EBUSY;
	case 408:
	case 504:
		return ETIMEDOUT;
	case 405:
		return ENOTSUP;
	default:
		return EIO;
	}
}

static const char *status_cure(long status)
{
	switch (status) {
	case 401:
	case 403:
		return ": check the credentials and that they allow this";
	case 404:
		return ": it is not there";
	case 405:
		return ": the registry does not allow it (deleting may have to "
		       "be enabled in its configuration)";
	case 429:
		return ": too many requests, try again later";
	default:
		return "";
	}
}

static int status_error(const struct http_response *resp, struct error *err)
{
	return error_set(err, status_code(resp->status),
			 "the registry answered %ld%s%s%.160s", resp->status,
			 status_cure(resp->status), resp->body.len ? ": " : "",
			 resp->body.data ? resp->body.data : "");
}

/* Longer when the registry says so. */
void registry_back_off(unsigned int n, const struct http_response *resp)
{
	AUTO_FREE char *after = resp ? http_header(resp, "retry-after") : NULL;
	unsigned long ms = BACKOFF_MS;
	struct timespec t;

	while (n-- > 1 && ms < BACKOFF_MAX_MS)
		ms *= 2;
	/* Half of it at random, so that nodes do not come back in step. */
	ms = ms / 2 + (unsigned long)random() % (ms / 2 + 1);
	if (after && strtoul(after, NULL, 10) * 1000 > ms)
		ms = strtoul(after, NULL, 10) * 1000;
	if (ms > RETRY_AFTER_MAX_MS)
		ms = RETRY_AFTER_MAX_MS;
	t.tv_sec = (time_t)(ms / 1000);
	t.tv_nsec = (long)(ms % 1000) * 1000000;
	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

static int attempt(struct registry *r, struct registry_request *req,
		   struct http_response *resp, bool *logged_in,
		   struct error *err)
{
	unsigned int used;
	AUTO_FREE char *authorization = current_login(r, &used);
	int rc = send_once(r, req, authorization, resp, err);

	if (rc < 0 || resp->status != 401 || *logged_in)
		return rc;
	*logged_in = true;
	rc = login(r, resp, used, err);
	if (rc < 0)
		return rc;
	free(authorization);
	authorization = current_login(r, &used);
	return send_once(r, req, authorization, resp, err);
}

static int attempts(struct registry *r, struct registry_request *req,
		    unsigned int max, struct http_response *resp,
		    struct error *err)
{
	bool logged_in = false;
	int rc = 0;

	for (unsigned int n = 1;; n++) {
		resp->status = 0;
		rc = attempt(r, req, resp, &logged_in, err);
		if (rc == 0 && is_good(req, resp->status))
			return 0;
		if (n >= max || !can_retry(rc, resp->status))
			break;
		registry_back_off(n, resp);
		rc = req->again ? req->again(req, err) : 0;
		if (rc < 0)
			break;
	}
	if (rc == 0)
		rc = status_error(resp, err);
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

static void registry_free(struct oci_store *s)
{
	registry_unref(registry_of(s));
}

static const struct oci_store_ops registry_ops = {
	.name = "registry",
	.get_manifest = registry_get_manifest,
	.open_blob = registry_open_blob,
	.has_blob = registry_has_blob,
	.put_blob = registry_put_blob,
	.put_manifest = registry_put_manifest,
	.remove_manifest = registry_remove_manifest,
	.list_tags = registry_list_tags,
	.list_referrers = registry_list_referrers,
	.free = registry_free,
};

static int fill(struct registry *r, const struct oci_ref *ref,
		const struct oci_config *cfg, struct error *err)
{
	struct http_config http = {
		.ca_file = cfg->ca_file,
		.allow_plain = cfg->plain_http,
		.connect_timeout_ms = cfg->connect_timeout_ms,
		.stall_timeout_ms = cfg->stall_timeout_ms,
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
		       cfg->plain_http ? "http" : "https", ref->host,
		       ref->repo) < 0 ||
	    !r->host || !r->repo || (cfg->auth_file && !r->auth_file))
		return error_nomem(err);
	r->url = buf_steal(&url);
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
	rc = fill(r, ref, cfg, err);
	if (rc < 0) {
		registry_unref(r);
		return rc;
	}
	*ret = &r->base;
	return 0;
}
