// SPDX-License-Identifier: Apache-2.0
/* A registry's uses and views, and errors that it answers: all its files stand on these. */
#include "objects/oci_registry.h"

#include <errno.h>
#include <string.h>

#include "objects/oci_json.h"

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
	for (size_t i = 0; i < r->n_mirrors; i++)
		registry_unref(r->mirrors[i]);
	for (size_t i = 0; i < ARRAY_SIZE(r->extra); i++)
		free(r->extra[i]);
	free(r->query);
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

void registry_origin_of(const char *url, char ret[OCI_HOST_ROOM])
{
	const char *host = strstr(url, "://");
	size_t len =
		host ? (size_t)(host + 3 - url) + strcspn(host + 3, "/?#") : 0;

	if (len >= OCI_HOST_ROOM)
		len = 0;
	memcpy(ret, url, len);
	ret[len] = '\0';
}

struct registry *registry_whole(struct registry *r)
{
	return r->whole ? r->whole : r;
}

bool registry_is_question(const struct http_request *req)
{
	return !req->sink && (strcmp(req->method, "GET") == 0 ||
			      strcmp(req->method, "HEAD") == 0);
}

bool registry_is_optional(const struct registry *r,
			  const struct registry_request *req)
{
	return r->cfg.hosts && registry_is_question(&req->http) &&
	       !req->http.deadline_ns;
}

static const struct http_refusal refusals[] = {
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

/* Is it the answer of Go, nginx or Apache to a client that comes without TLS? */
static bool wants_tls(const struct http_response *resp)
{
	return resp->status == 400 && resp->body.data &&
	       (strstr(resp->body.data, "HTTPS ") ||
		strstr(resp->body.data, "SSL-enabled"));
}

int registry_status_error(const struct http_response *resp, struct error *err)
{
	AUTO_BUF reason = BUF_INIT;
	struct http_refusal refusal =
		http_refusal_of(refusals, ARRAY_SIZE(refusals), resp->status);

	if (wants_tls(resp))
		refusal.cure = ": it speaks TLS: leave out --plain-http "
			       "(bootseerd.conf: plain-http)";
	get_reason(resp, &reason);
	return error_set(err, refusal.code, "the registry answered %ld%s%s%s%s",
			 resp->status, reason.len ? " (" : "",
			 reason.len ? reason.data : "", reason.len ? ")" : "",
			 refusal.cure);
}
