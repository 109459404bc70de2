// SPDX-License-Identifier: Apache-2.0
/* Challenges of registries (distribution-spec; RFC 7235, RFC 6750). */
#include "objects/oci_registry_auth.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <strings.h>

#include "common/base64.h"
#include "common/clock.h"
#include "objects/oci_json.h"

#define VALUE_MAX 2048
#define ANSWER_MAX_NS 30000000000LL /* of a token service */

void challenge_fini(struct challenge *c)
{
	free(c->realm);
	free(c->service);
	free(c->scope);
	*c = (struct challenge){ .realm = NULL };
}

static const char *skip_set(const char *p, const char *set)
{
	return p + strspn(p, set);
}

/* key=value or key="value"; returns where it ends, NULL when malformed. */
static const char *parse_param(const char *p, const char **key, size_t *n_key,
			       struct buf *value)
{
	*key = p;
	*n_key = strcspn(p, " \t=,\"");
	p = skip_set(p + *n_key, " \t");
	if (*n_key == 0 || *p != '=')
		return NULL;
	p = skip_set(p + 1, " \t");
	buf_reset(value);
	if (*p != '"') {
		size_t n = strcspn(p, ", \t");

		return n && buf_append(value, p, n) == 0 ? p + n : NULL;
	}
	for (p++; *p && *p != '"'; p++) {
		if (*p == '\\' && p[1])
			p++;
		if (value->len > VALUE_MAX || buf_append(value, p, 1) < 0)
			return NULL;
	}
	return *p == '"' ? p + 1 : NULL;
}

static int replace_text_by_value(char **slot, struct buf *value)
{
	free(*slot);
	*slot = buf_steal(value);
	return *slot ? 0 : -ENOMEM;
}

static const char *parse_bearer(const char *p, struct challenge *c)
{
	AUTO_BUF value = BUF_INIT;

	for (;;) {
		const char *key, *next;
		size_t n;
		int rc = 0;

		p = skip_set(p, " \t,");
		if (!*p)
			return p;
		next = parse_param(p, &key, &n, &value);
		if (!next) /* another scheme's name */
			return p;
		p = next;
		if (n == 5 && strncasecmp(key, "realm", n) == 0)
			rc = replace_text_by_value(&c->realm, &value);
		else if (n == 7 && strncasecmp(key, "service", n) == 0)
			rc = replace_text_by_value(&c->service, &value);
		else if (n == 5 && strncasecmp(key, "scope", n) == 0)
			rc = replace_text_by_value(&c->scope, &value);
		if (rc < 0)
			return NULL;
	}
}

int challenge_parse(const char *header, struct challenge *ret,
		    struct error *err)
{
	struct challenge c = { .realm = NULL };
	const char *p = skip_set(header, " \t,");

	while (p && *p) {
		size_t n = strcspn(p, " \t,");

		if (n == 6 && strncasecmp(p, "bearer", n) == 0) {
			c.bearer = true;
			p = parse_bearer(p + n, &c);
			continue;
		}
		if (n == 5 && strncasecmp(p, "basic", n) == 0)
			c.basic = true;
		p = skip_set(p + n, " \t,");
	}
	if (c.bearer && !c.realm)
		c.bearer = false;
	if (!c.bearer && !c.basic) {
		challenge_fini(&c);
		return error_set(err, EACCES,
				 "the registry wants a kind of login that is "
				 "not known: '%.100s'",
				 header);
	}
	*ret = c;
	return 0;
}

static int make_basic_header(const struct credentials *who, char **ret,
			     struct error *err)
{
	AUTO_BUF plain = BUF_INIT;
	AUTO_BUF b = BUF_INIT;

	if (!who->user || !who->password)
		return error_set(err, EACCES,
				 "the registry wants a login and there are no "
				 "credentials for it: log in with 'docker "
				 "login' or name a file with --auth-file "
				 "(bootseerd.conf: auth-file)");
	if (buf_printf(&plain, "%s:%s", who->user, who->password) < 0 ||
	    buf_puts(&b, "Authorization: Basic ") < 0 ||
	    base64_encode(plain.data, plain.len, &b) < 0)
		return error_nomem(err);
	*ret = buf_steal(&b);
	return *ret ? 0 : error_nomem(err);
}

static int append_escaped(struct buf *b, const char *text)
{
	int rc = 0;

	for (; *text && rc == 0; text++) {
		if (isalnum((unsigned char)*text) || strchr("-._~:/,", *text))
			rc = buf_append(b, text, 1);
		else
			rc = buf_printf(b, "%%%02X", (unsigned char)*text);
	}
	return rc;
}

static int append_query(struct buf *b, const char *key, const char *value,
			char first)
{
	int rc;

	if (!value)
		return 0;
	rc = buf_printf(b, "%c%s=", first, key);
	return rc < 0 ? rc : append_escaped(b, value);
}

static int parse_token(const struct buf *body, char **ret, struct error *err)
{
	const char *token;
	AUTO_BUF b = BUF_INIT;
	json_t *j;
	int rc =
		bounded_json_load(body->data, body->len, "its answer", &j, err);

	if (rc < 0)
		return rc;
	token = json_string_value(json_object_get(j, "token"));
	if (!token)
		token = json_string_value(json_object_get(j, "access_token"));
	if (!token || strpbrk(token, "\r\n"))
		rc = error_set(err, EACCES, "its answer has no token");
	else if (buf_printf(&b, "Authorization: Bearer %s", token) < 0)
		rc = error_nomem(err);
	json_decref(j);
	if (rc == 0)
		*ret = buf_steal(&b);
	return rc < 0 ? rc : *ret ? 0 : error_nomem(err);
}

/* OAuth 2 with a refresh token, as docker's token service documents it. */
static int post_form(const struct challenge *c, const struct credentials *who,
		     struct buf *form)
{
	int rc = buf_puts(form, "grant_type=refresh_token&client_id=bootseer");

	if (rc == 0)
		rc = append_query(form, "service", c->service, '&');
	if (rc == 0)
		rc = append_query(form, "scope", c->scope, '&');
	if (rc == 0)
		rc = append_query(form, "refresh_token", who->identity_token,
				  '&');
	return rc;
}

static int make_bearer_header(struct http *http, const struct challenge *c,
			      const struct credentials *who,
			      const struct challenge_wait *wait, char **ret,
			      struct error *err)
{
	struct http_response resp = HTTP_RESPONSE_INIT;
	const char *headers[2] = { NULL, NULL };
	struct http_request req = {
		.method = "GET",
		.headers = headers,
		.deadline_ns = clock_now_ns() + ANSWER_MAX_NS,
		.pace = wait->pace,
		.reach_ms = wait->reach_ms,
	};
	AUTO_FREE char *basic = NULL;
	AUTO_BUF url = BUF_INIT;
	AUTO_BUF form = BUF_INIT;
	int rc = buf_puts(&url, c->realm);

	if (rc == 0 && who->identity_token) {
		rc = post_form(c, who, &form);
		req.method = "POST";
		req.stays = true; /* the refresh token is in the body */
		req.body = form.data;
		req.body_len = form.len;
		headers[0] = "Content-Type: application/x-www-form-urlencoded";
	} else if (rc == 0) {
		char first = strchr(c->realm, '?') ? '&' : '?';

		rc = append_query(&url, "service", c->service, first);
		if (rc == 0)
			rc = append_query(&url, "scope", c->scope,
					  c->service ? '&' : first);
		if (rc == 0 && who->user) {
			rc = make_basic_header(who, &basic, err);
			if (rc < 0) /* says what is missing */
				return rc;
			headers[0] = basic;
		}
	}
	if (rc < 0)
		return error_nomem(err);
	req.url = url.data;
	rc = http_do(http, &req, &resp, err);
	if (wait->ret_is_reached)
		*wait->ret_is_reached = resp.status || resp.wait_ns > 0;
	if (rc == 0 && (resp.status == 429 || resp.status >= 500))
		rc = error_set(err, EIO, "it answered %ld", resp.status);
	if (rc == 0 && resp.status != 200)
		rc = error_set(err, EACCES,
			       "it answered %ld: check the credentials for "
			       "this registry (--auth-file; bootseerd.conf: "
			       "auth-file), and this machine's clock",
			       resp.status);
	if (rc == 0)
		rc = parse_token(&resp.body, ret, err);
	http_response_fini(&resp);
	return rc < 0 ? error_wrap(err, rc, "token service %.100s", c->realm)
		      : 0;
}

int challenge_answer(struct http *http, const struct challenge *c,
		     const struct credentials *who,
		     const struct challenge_wait *wait, char **ret,
		     struct error *err)
{
	if (c->bearer)
		return make_bearer_header(http, c, who, wait, ret, err);
	return make_basic_header(who, ret, err);
}
