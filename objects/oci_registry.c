// SPDX-License-Identifier: Apache-2.0
/* A repository of a registry: requests with login and retries. */
#include "objects/oci_registry.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/backoff.h"
#include "common/clock.h"
#include "net/url.h"

#define WAIT_KEPT_MAX_MS 60000
/* Time that a host may take to answer before it counts as away. */
#define SILENT_NS (10 * NS_PER_S)
#define KEPT_AFTER_MS 5000      /* of what such a request is asked to wait */
#define LAST_CHANCE_NS NS_PER_S /* before a deadline: time for an answer */
#define ANSWER_MAX_NS 60000000000LL /* of a request without a blob */

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
	AUTO_FINI(url) u = { .scheme = NULL };
	const char *host = url_parse(url, &u) == 0 ? u.host : url;
	int rc =
		error_set(err, EACCES,
			  "the registry leads to another host, '%.100s%s%.5s', "
			  "which wants a login: the registry's is not shown to "
			  "it",
			  host, u.port ? ":" : "", u.port ? u.port : "");

	return rc;
}

/* Bulk gives way of its own, so that its silence says nothing of the host. */
static int send_watched(struct registry *r, const struct http_request *http,
			const char *what, struct http_response *resp,
			struct error *err)
{
	const struct pace *pace = http->pace;
	char host[OCI_HOST_ROOM];
	unsigned int wait = 0;
	int rc;

	registry_origin_of(http->url, host);
	if (!pace || pace->is_urgent)
		wait = oci_hosts_begin_wait(r->cfg.hosts, host, what,
					    &registry_whole(r)->heard_ns);
	rc = http_do(r->http, http, resp, err);
	oci_hosts_end_wait(r->cfg.hosts, wait);
	return rc;
}

static int send_once(struct registry *r, const struct registry_request *req,
		     const char *url, const char *authorization,
		     struct http_response *resp, struct error *err)
{
	const char *headers[REGISTRY_HEADERS_MAX + OCI_MIRROR_HEADERS_MAX +
			    2] = { NULL };
	const struct registry *from = registry_whole(r);
	struct http_request http = req->http;
	size_t n = 0;

	for (; http.headers && http.headers[n] && n < REGISTRY_HEADERS_MAX; n++)
		headers[n] = http.headers[n];
	for (size_t i = 0; is_own_url(r, url) && from->extra[i]; i++)
		if (!authorization ||
		    strncasecmp(from->extra[i], "authorization:", 14) != 0)
			headers[n++] = from->extra[i];
	headers[n] = authorization;
	http.headers = headers;
	http.url = url;
	/* Short answers; how long blobs take, to come or to be checked behind
	 * an upload, nobody knows beforehand. */
	if (registry_is_optional(r, req) || r->is_mirror)
		http.reach_ms = REGISTRY_REACH_MS;
	if (registry_is_question(&http) && !http.deadline_ns)
		http.deadline_ns = clock_now_ns() + ANSWER_MAX_NS;
	return send_watched(r, &http, req->what, resp, err);
}

static bool status_is_accepted(const struct registry_request *req, long status)
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

int registry_back_off(unsigned int n, const struct http_response *resp,
		      int64_t deadline_ns, struct pace *pace)
{
	static const struct backoff backoff = { .first_ms = 100,
						.most_ms = 5000 };
	int64_t now = clock_now_ns();
	uint64_t least_ms = resp ? http_retry_after_ms(resp) : 0;
	int64_t until;

	if (!deadline_ns && least_ms > WAIT_KEPT_MAX_MS)
		least_ms = WAIT_KEPT_MAX_MS;
	until = now + backoff_ns(&backoff, n, least_ms);

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
	bool is_throttled =
		resp->status == 429 || http_retry_after_ms(resp) > 0;
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

/* Note what the request has shown of its host. */
static void note_host_reachability(struct registry *r,
				   struct registry_request *req, int rc,
				   const struct http_response *resp,
				   const struct error *why)
{
	bool is_silent = rc == -ETIMEDOUT &&
			 (registry_is_optional(r, req) || r->is_mirror);

	if (resp->status) {
		oci_hosts_answered(r->cfg.hosts, r->origin);
		return;
	}
	if (rc == -ECONNREFUSED)
		(void)snprintf(req->refused_by, sizeof(req->refused_by), "%s",
			       r->origin);
	/* Nor does it help to knock at a mirror that refuses each time. */
	if (rc == -ECONNREFUSED && r->is_mirror)
		is_silent = true;
	if (rc == -ETIMEDOUT || rc == -ECANCELED)
		is_silent = is_silent || resp->took_ns >= SILENT_NS;
	if (!is_silent)
		return;
	oci_hosts_note_away(r->cfg.hosts, r->origin, why, clock_now_ns());
	req->is_final = registry_is_optional(r, req);
}

/* A host that has refused each attempt is asked once by each image after this one; one that
 * restarts was asked again before that. */
static void note_refusing_host(const struct registry *r,
			       const struct registry_request *req, int rc,
			       const struct error *why)
{
	if (rc == -ECONNREFUSED && *req->refused_by &&
	    registry_is_optional(r, req))
		oci_hosts_note_refusing(r->cfg.hosts, req->refused_by, why,
					clock_now_ns());
}

/* Does the host want more time than such a request has?  It is left alone then, by other images
 * too unless the limit is a pod's account's or another host's. */
static bool host_asks_for_long_wait(struct registry *r,
				    const struct registry_request *req,
				    const struct http_response *resp)
{
	uint64_t ms = http_retry_after_ms(resp);

	if (!registry_is_optional(r, req) || ms <= KEPT_AFTER_MS)
		return false;
	if (req->is_of_others)
		return true;
	oci_hosts_note_throttled(registry_whole(r)->cfg.hosts, r->origin,
				 (int64_t)ms * NS_PER_MS, clock_now_ns());
	return true;
}

static int make_url(struct registry *r, const struct registry_request *req,
		    struct buf *ret)
{
	const char *path = req->http.url, *query = registry_whole(r)->query;

	if (path[0] != '/')
		return buf_puts(ret, path);
	if (!query)
		return buf_printf(ret, "%s%s", r->url, path);
	return buf_printf(ret, "%s%s%c%s", r->url, path,
			  strchr(path, '?') ? '&' : '?', query);
}

/* A login that may not push may read all the same. */
static bool request_is_read(const struct registry_request *req)
{
	return strcmp(req->http.method, "GET") == 0 ||
	       strcmp(req->http.method, "HEAD") == 0;
}

static int attempt_request_with_logins(struct registry *r,
				       struct registry_request *req,
				       struct http_response *resp,
				       struct error *err)
{
	AUTO_BUF url = BUF_INIT;
	bool own;

	if (make_url(r, req, &url) < 0)
		return error_nomem(err);
	own = is_own_url(r, url.data);
	if (own && (registry_is_optional(r, req) || r->is_mirror)) {
		int rc = oci_hosts_check(r->cfg.hosts, r->origin,
					 clock_now_ns(), err);

		resp->status = 0;
		req->is_final = rc != 0;
		if (rc < 0)
			return rc;
	}
	for (int n_logins = 0;; n_logins++) {
		AUTO_FREE char *login_line = NULL;
		unsigned int used = 0;
		bool is_verdict, is_shown = false;
		int rc;

		if (own)
			login_line = registry_login_line(r, &used, &is_shown);
		rc = send_once(r, req, url.data, login_line, resp, err);
		req->is_of_others =
			is_shown || !is_own_answer(r, url.data, resp);
		if (own)
			note_host_reachability(r, req, rc, resp, err);
		if (rc < 0 || !registry_is_refusal(resp) ||
		    (resp->status == 401 && status_is_accepted(req, 401) &&
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
		is_verdict = request_is_read(req) &&
			     !status_is_accepted(req, resp->status);
		if (!registry_may_log_in(r, resp, used, n_logins, is_verdict)) {
			/* Some answer 403 to what they do not have. */
			if (!status_is_accepted(req, resp->status))
				registry_login_refused(r, resp);
			return rc;
		}
		/* A registry tells how to log in only when a request shows no login: drop it and ask again. */
		if (login_line && resp->status != 401) {
			registry_login_drop(r, used, is_verdict);
			n_logins--;
			continue;
		}
		rc = registry_log_in(r, req, resp, used, is_verdict, err);
		if (rc < 0) {
			/* The token service is down: that may pass. */
			resp->status = 0;
			return rc;
		}
	}
}

/* Ask the mirrors that may answer.  False: none did, so that the registry itself is to be
 * asked; what the last one said is in `resp`.  A mirror that is cut off in the middle of
 * an answer has given it. */
static bool attempt_mirrors(struct registry *r, struct registry_request *req,
			    struct http_response *resp, int *ret_rc,
			    struct error *err)
{
	struct registry *all = registry_whole(r);

	for (size_t i = 0; i < all->n_mirrors; i++) {
		struct registry *m = all->mirrors[i];

		if (!(m->uses & req->use))
			continue;
		*ret_rc = attempt_request_with_logins(m, req, resp, err);
		req->by = m;
		req->is_final = false;
		if (resp->status / 100 == 2 || *ret_rc == -ECANCELED ||
		    *ret_rc == -ENOMEM)
			return true;
	}
	return false;
}

static int try_request(struct registry *r, struct registry_request *req,
		       struct http_response *resp, struct error *err)
{
	bool is_asked_here = req->http.url[0] == '/';
	long said;
	int rc = 0;

	if (!is_asked_here)
		return attempt_request_with_logins(req->by ? req->by : r, req,
						   resp, err);
	req->by = NULL;
	if (req->use != REGISTRY_ITSELF &&
	    attempt_mirrors(r, req, resp, &rc, err))
		return rc;
	if (req->by && !(registry_whole(r)->uses & req->use))
		return rc;
	said = req->by && rc == 0 && req->accept && req->accept(resp->status)
		       ? resp->status
		       : 0;
	req->by = NULL;
	rc = attempt_request_with_logins(r, req, resp, err);
	if (rc == 0 || resp->status || !said)
		return rc;
	/* Where no other host answers, a mirror's "no such list" is the answer. */
	req->is_final = false;
	resp->status = said;
	return 0;
}

static int retry_request(struct registry *r, struct registry_request *req,
			 unsigned int max, struct http_response *resp,
			 struct error *err)
{
	struct error own = ERROR_INIT;
	int rc = 0;

	err = err ? err : &own;
	if (!req->http.pace)
		req->http.pace = r->cfg.pace;
	for (unsigned int n = 1;; n++) {
		rc = try_request(r, req, resp, err);
		if (rc == 0 && status_is_accepted(req, resp->status))
			return 0;
		if (n >= max || req->is_final ||
		    !registry_can_retry(rc, resp->status) ||
		    host_asks_for_long_wait(r, req, resp) ||
		    registry_wait(r, n, req, resp) < 0)
			break;
	}
	note_refusing_host(r, req, rc, err);
	if (rc == 0)
		rc = registry_status_error(resp, err);
	else if (rc == -ECONNREFUSED)
		rc = -EIO; /* oci.h knows no finer reason */
	return error_wrap(err, rc, "%s/%s: %s", r->host, r->repo, req->what);
}

int registry_do(struct registry *r, struct registry_request *req,
		struct http_response *resp, struct error *err)
{
	return retry_request(r, req, r->cfg.attempts, resp, err);
}

int registry_try(struct registry *r, struct registry_request *req,
		 struct http_response *resp, struct error *err)
{
	return retry_request(r, req, 1, resp, err);
}
