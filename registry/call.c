// SPDX-License-Identifier: Apache-2.0
#include "registry/call.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/registry_host.h"
#include "p2p/rights/capability.h"

const char *call_param(const struct call *c, const char *name)
{
	const char *v = c->values[route_param(c->route, name)];

	return v ? v : "";
}

int call_number(const struct call *c, const char *name, int otherwise)
{
	const char *v = call_param(c, name);

	return v[0] ? atoi(v) : otherwise;
}

const char *call_prefix(const struct call *c)
{
	return c->token && c->token->repo ? c->token->repo : "";
}

static int PRINTF(4, 0) vfail(struct call *c, int status, struct error *err,
			      const char *fmt, va_list ap)
{
	char text[ERROR_MSG_MAX];

	(void)vsnprintf(text, sizeof(text), fmt, ap);
	c->status = status;
	return error_set(err, EPERM, "%s", text);
}

int call_fail(struct call *c, int status, const char *code, struct error *err,
	      const char *fmt, ...)
{
	va_list ap;
	int rc;

	va_start(ap, fmt);
	rc = vfail(c, status, err, fmt, ap);
	va_end(ap);
	return rc;
}

int call_refuse(struct call *c, int status, struct error *err, const char *fmt,
		...)
{
	va_list ap;
	int rc;

	c->is_refused = true;
	atomic_fetch_add(&c->service->counts.denied, 1);
	va_start(ap, fmt);
	rc = vfail(c, status, err, fmt, ap);
	va_end(ap);
	return rc;
}

int call_check_repo(struct call *c, const char *repo, struct error *err)
{
	if (!c->token || token_has_repo(c->token, repo))
		return 0;
	return call_refuse(c, HTTPD_FORBIDDEN, err,
			   "token '%s' is for %s only, repo '%s' is not",
			   c->token->name, c->token->repo, repo);
}

const char *call_trace_prefix(const struct call *c, const char *repo)
{
	return registry_host_is_store(repo) ? repo : call_prefix(c);
}

int call_check_trace_repo(struct call *c, const char *repo, struct error *err)
{
	const struct registry_config *cfg = c->service->cfg;
	const char *pulled = capability_repo_of(repo);

	if (!registry_host_is_store(repo) || pulled)
		return call_check_repo(c, pulled ? pulled : repo, err);
	if (c->token ? token_has_store(c->token, repo) : cfg->insecure_no_auth)
		return 0;
	return call_refuse(c, HTTPD_FORBIDDEN, err,
			   "the tokens file does not say%s%s: stores=%s",
			   c->token ? " for " : "",
			   c->token ? c->token->name : "", repo);
}

int call_header(struct call *c, const char *name, const char *value)
{
	return buf_printf(&c->reply.headers, "%s: %s\r\n", name, value);
}

int call_send_json(struct call *c, struct json_t *o, struct error *err)
{
	char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
	int rc = text ? buf_printf(&c->reply.body, "%s\n", text) : -ENOMEM;

	json_decref(o);
	free(text);
	c->reply.type = "application/json";
	return rc < 0 ? error_nomem(err) : 0;
}

int call_body_json(const struct call *c, struct json_t **ret, struct error *err)
{
	json_error_t why;

	*ret = json_loadb(c->req->body ? c->req->body : "",
			  c->req->head.content_length, 0, &why);
	return *ret ? 0
		    : error_set(err, EINVAL, "JSON, line %d: %s", why.line,
				why.text);
}

int call_send_if_new(struct call *c, struct error *err)
{
	const char *tags = httpd_head_get(&c->req->head, "If-None-Match");
	char etag[DIGEST_STR_MAX + 2], text[DIGEST_STR_MAX];
	struct digest d;

	if (digest_of(c->reply.body.data, c->reply.body.len, &d) < 0)
		return error_nomem(err);
	digest_format(&d, text);
	(void)snprintf(etag, sizeof(etag), "\"%s\"", text);
	if (call_header(c, "ETag", etag) < 0)
		return error_nomem(err);
	if (tags && strstr(tags, etag)) {
		buf_reset(&c->reply.body);
		c->reply.status = HTTPD_NOT_MODIFIED;
	}
	return 0;
}

/* The node name must be that of the caller's token or certificate. Otherwise any caller with write
 * access could send data in the name of every node. */
int call_check_node(struct call *c, const char *node, struct error *err)
{
	const char *cert = c->req->peer_node;
	const struct token *t = c->token;

	if (!param_node.ok(node))
		return error_set(err, EINVAL, "node must be %s",
				 param_node.name);
	if (t && t->node && !token_has_node(t, node))
		return call_refuse(c, HTTPD_FORBIDDEN, err,
				   "token '%s' is for node '%s' only", t->name,
				   t->node);
	if (cert[0] && strcmp(node, cert) != 0)
		return call_refuse(c, HTTPD_FORBIDDEN, err,
				   "the certificate is of node '%s'", cert);
	/* An admin without a node name may read what belongs to any node, but may not write for a
	 * node. */
	if (t && !t->node && !cert[0] &&
	    (c->route->role == ROLE_WRITE || !(t->roles & ROLE_ADMIN)))
		return call_refuse(
			c, HTTPD_FORBIDDEN, err,
			"token '%s' is of no node: give it node=%s in "
			"--tokens (node=* for any), or have the node "
			"show its certificate (--tls-client-ca)",
			t->name, node);
	return 0;
}

/* The owner whose calls are queued together: the same name as httpd_request.owner. */
const char *call_owner(const struct call *c)
{
	return c->token ? c->token->name : c->req->peer_node;
}
