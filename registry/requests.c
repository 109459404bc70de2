// SPDX-License-Identifier: Apache-2.0
#include "registry/requests.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "registry/call.h"
#include "registry/routes.h"

/* Start a sweep early when 1/16 of --max-bytes has come in since the last. */
#define SWEEP_SHARE 16

/* --------------------------------------------------------------------- answer --- */

static int error_text(int status, const char *code, const char *message,
		      struct buf *ret)
{
	/* NULL when the message is not UTF-8. */
	json_t *o = json_pack("{s:{s:s,s:s}}", "error", "code", code, "message",
			      message);
	char *text;
	int rc;

	if (!o)
		o = json_pack("{s:{s:s,s:s}}", "error", "code", code, "message",
			      httpd_status_text(status));
	text = o ? json_dumps(o, JSON_COMPACT) : NULL;
	json_decref(o);
	rc = text ? buf_printf(ret, "%s\n", text) : -ENOMEM;
	free(text);
	return rc;
}

static int on_error(void *arg, int status, const char *message, struct buf *ret)
{
	(void)arg;
	return error_text(status, httpd_status_code(status), message, ret);
}

/* Map a negative errno to an HTTP status. */
static int status_of(int rc)
{
	switch (-rc) {
	case ENOENT:
		return HTTPD_NOT_FOUND;
	case EINVAL:
	case EBADMSG:
	case ENOTSUP:
		return HTTPD_BAD_REQUEST;
	case EFBIG:
		return HTTPD_TOO_LARGE;
	case EDQUOT:
		return HTTPD_TOO_MANY;
	case EBUSY:
	case ECONNREFUSED:
	case ENOMEM:
	case ENOSPC:
		return HTTPD_UNAVAILABLE;
	default:
		return HTTPD_INTERNAL;
	}
}

/* The message for the client. A database error names the server's address and user, and clients
 * without a token see readiness, so it goes to the log only. */
static const char *client_message_of(const struct call *c, int status)
{
	if (c->rc == -ECONNREFUSED)
		return "the database does not answer: this service's log "
		       "says why";
	return status == HTTPD_INTERNAL
		       ? "it failed here: this service's log says why"
		       : c->err.msg;
}

static void fail_reply(struct call *c)
{
	int status = c->status ? c->status : status_of(c->rc);
	const char *code =
		c->rc == -ENOENT ? "no_trace" : httpd_status_code(status);
	int rc;

	if (status >= HTTPD_INTERNAL)
		log_warning("service", "%s failed status=%d reason=\"%s\"",
			    c->route->id, status, c->err.msg);
	buf_reset(&c->reply.body);
	c->reply.status = status;
	c->reply.type = "application/json";
	rc = error_text(status, code, client_message_of(c, status),
			&c->reply.body);
	if (!c->retry_after_s && status == HTTPD_UNAVAILABLE)
		c->retry_after_s = 1;
	if (rc == 0 && c->retry_after_s)
		rc = buf_printf(&c->reply.headers, "Retry-After: %d\r\n",
				c->retry_after_s);
	if (rc < 0)
		c->reply.type = NULL;
}

/* Log the address that sent a wrong token, never the token itself. */
static void log_refused_call(const struct call *c)
{
	char from[INET6_ADDRSTRLEN + IF_NAMESIZE], others[32] = "";
	uint64_t untold;

	if (!refusals_tell(&c->service->refusals, clock_now_ns(), &untold))
		return;
	httpd_from(c->req, from, sizeof(from));
	if (untold)
		(void)snprintf(others, sizeof(others), " others=%" PRIu64,
			       untold);
	log_warning("service",
		    "refused from=%s call=\"%s %s\" status=%d reason=\"%s\"%s",
		    from, httpd_method_name(c->req->head.method),
		    c->route->path, c->status, c->err.msg, others);
}

static void finish_call(struct call *c)
{
	struct service *s = c->service;

	if (c->rc < 0)
		fail_reply(c);
	if (c->is_refused)
		log_refused_call(c);
	httpd_answer(c->req, &c->reply);
	token_set_unref(c->set);
	free(c);
	if (atomic_load(&s->counts.new_bytes) >
	    s->limits.total_bytes / SWEEP_SHARE)
		sweep_soon(&s->sweep);
}

/* ------------------------------------------------------------------------ run --- */

static void run_call(struct owner_turn *t)
{
	struct call *c = container_of(t, struct call, turn);
	struct service *s = c->service;

	/* The call waited so long that its client has given up. */
	if (clock_now_ns() - c->req->begun_ns > 2 * s->cfg->request_timeout) {
		atomic_fetch_add(&s->counts.expired_calls, 1);
		c->rc = error_set(&c->err, EBUSY, "it waited too long");
		return;
	}
	c->rc = c->route->run(c, &c->err);
}

static void finish_call_of_turn(struct owner_turn *t)
{
	finish_call(container_of(t, struct call, turn));
}

static void drop_call(struct owner_turn *t)
{
	struct call *c = container_of(t, struct call, turn);

	c->rc = error_set(&c->err, EBUSY, "the service ends");
	finish_call(c);
}

static void on_request(void *arg, struct httpd_request *r)
{
	struct call *c = r->user;
	struct service *s = arg;
	int rc;

	if (c->route->on_loop) {
		run_call(&c->turn);
		finish_call(c);
		return;
	}
	c->turn.run = run_call;
	c->turn.done = finish_call_of_turn;
	c->turn.drop = drop_call;
	rc = turns_submit(c->route->is_asking ? s->asking : s->turns, &c->turn,
			  call_owner(c));
	if (rc < 0) {
		c->rc = error_set(&c->err, EBUSY, "too much is waiting");
		finish_call(c);
	}
}

/* ---------------------------------------------------------------------- heads --- */

/* Length of HOST in "HOST:PORT", or of "[ADDRESS]" in "[ADDRESS]:PORT". */
static size_t host_length(const char *host)
{
	const char *end = host[0] == '[' ? strchr(host, ']') : NULL;

	return end ? (size_t)(end + 1 - host) : strcspn(host, ":");
}

/* Is it a name that cannot be made to point here by an attacker's DNS: an address, localhost, or
 * this machine's own name? */
static bool is_own_host(const char *host)
{
	size_t n = host_length(host);
	char own[HOST_NAME_MAX + 1] = "";

	if (host[n] && host[n] != ':')
		return false;
	if (host[0] == '[' || strspn(host, "0123456789.") == n)
		return true;
	if (n >= 9 && strncasecmp(host + n - 9, "localhost", 9) == 0 &&
	    (n == 9 || host[n - 10] == '.'))
		return true;
	return gethostname(own, sizeof(own) - 1) == 0 && strlen(own) == n &&
	       strncasecmp(host, own, n) == 0;
}

/* Is it one of the names that the operator set with --host? */
static bool is_named_host(char **names, const char *host)
{
	size_t n = host_length(host);

	for (; names && *names; names++)
		if (strlen(*names) == n && strncasecmp(host, *names, n) == 0 &&
		    (!host[n] || host[n] == ':'))
			return true;
	return false;
}

static bool is_own_origin(const char *origin, const char *host)
{
	const char *at = strstr(origin, "://");

	return at && host && strcasecmp(at + 3, host) == 0;
}

/*
 * With --insecure-no-auth every client may do everything. A foreign web page must not use a user's
 * browser to do so: refuse requests whose Origin is another site, and those whose Host is a foreign
 * name that was made to resolve to this machine (DNS rebinding).
 */
static int check_browser(struct call *c, struct error *err)
{
	const char *host = httpd_head_get(&c->req->head, "Host");
	const char *origin = httpd_head_get(&c->req->head, "Origin");

	if (origin && !is_own_origin(origin, host))
		return call_refuse(c, HTTPD_FORBIDDEN, err,
				   "a page of another origin may not use a "
				   "service that has --insecure-no-auth: give "
				   "it --tokens");
	if (host && !is_own_host(host) &&
	    !is_named_host(c->service->cfg->hosts, host))
		return call_refuse(c, HTTPD_FORBIDDEN, err,
				   "with --insecure-no-auth this service is "
				   "asked by its address, as localhost or by "
				   "the machine's name, and by another name "
				   "only when --host says it");
	return 0;
}

/* Without a tokens file, a node's certificate lets it do what nodes do. A service that lets every
 * client do everything needs --insecure-no-auth even on loopback, because other users have accounts
 * on this machine. */
static int check_certificate(struct call *c, struct error *err)
{
	const struct registry_config *cfg = c->service->cfg;

	if (cfg->insecure_no_auth)
		return check_browser(c, err);
	if (c->req->peer_node[0] && c->route->role & (ROLE_READ | ROLE_WRITE))
		return 0;
	if (c->req->peer_node[0])
		return call_refuse(c, HTTPD_FORBIDDEN, err,
				   "node '%s' has not the role for this: %s, "
				   "which a token of --tokens gives",
				   c->req->peer_node,
				   token_role_name(c->route->role));
	if (call_header(c, "WWW-Authenticate", "Bearer") < 0)
		return error_nomem(err);
	return call_refuse(
		c, HTTPD_UNAUTHORIZED, err, "%s",
		cfg->tls_client_ca
			? "a node's certificate is needed, or a token of "
			  "--tokens, which this service has not"
			: "this service knows nobody: give it --tokens "
			  "or --tls-client-ca, or say --insecure-no-auth");
}

static int check_caller(struct call *c, struct error *err)
{
	struct service *s = c->service;
	const char *shown;

	if (c->route->role == ROLE_NONE)
		return 0;
	if (!s->tokens)
		return check_certificate(c, err);
	shown = httpd_head_get(&c->req->head, "Authorization");
	c->token = tokens_find(&s->tokens->tokens, shown);
	if (!c->token) {
		if (call_header(c, "WWW-Authenticate", "Bearer") < 0)
			return error_nomem(err);
		return call_refuse(c, HTTPD_UNAUTHORIZED, err,
				   "a valid token is needed: %s",
				   shown ? "this one is not known"
					 : "none came");
	}
	c->set = token_set_ref(s->tokens);
	if (!(c->token->roles & c->route->role))
		return call_refuse(c, HTTPD_FORBIDDEN, err,
				   "token '%s' has not the role for this: %s",
				   c->token->name,
				   token_role_name(c->route->role));
	return 0;
}

/* Check the node's name in the request's head before the body is read. */
static int check_named_node(struct call *c, struct error *err)
{
	size_t i = route_param(c->route, "Bootseer-Node");

	return c->route->params[i].name ? call_check_node(c, c->values[i], err)
					: 0;
}

static int check_request_head(struct call *c, struct error *err)
{
	struct httpd_head *h = &c->req->head;
	int status = route_find(routes, n_routes, h->method, h->path, &c->route,
				c->values);
	AUTO_BUF allow = BUF_INIT;
	int rc;

	if (status == HTTPD_METHOD_NOT_ALLOWED &&
	    (route_allow(routes, n_routes, c->route, &allow) < 0 ||
	     call_header(c, "Allow", allow.data) < 0))
		return error_nomem(err);
	if (status)
		return call_fail(c, status, NULL, err, "%s",
				 httpd_status_text(status));
	rc = check_caller(c, err);
	if (rc == 0)
		rc = route_params(c->route, h, c->values, err);
	return rc < 0 ? rc : check_named_node(c, err);
}

static uint64_t on_head(void *arg, struct httpd_request *r)
{
	static const struct route nowhere = { .id = "none" };
	struct service *s = arg;
	struct call *c = calloc(1, sizeof(*c));

	if (!c) {
		httpd_answer_error(r, HTTPD_UNAVAILABLE, "out of memory");
		return 0;
	}
	r->user = c;
	c->service = s;
	c->req = r;
	c->reply = (struct httpd_reply)HTTPD_REPLY_INIT;
	c->rc = check_request_head(c, &c->err);
	r->owner = call_owner(c);
	if (!r->owner[0])
		r->owner = NULL;
	if (c->rc == 0)
		return !c->route->body      ? 0
		       : c->route->body_max ? c->route->body_max
					    : s->cfg->trace_max;
	if (!c->route)
		c->route = &nowhere;
	finish_call(c);
	return 0;
}

/* Release a request that was accepted but whose body never came completely. */
static void on_drop(void *arg, struct httpd_request *r)
{
	struct call *c = r->user;

	(void)arg;
	token_set_unref(c->set);
	httpd_reply_fini(&c->reply);
	free(c);
}

const struct httpd_handler requests_handler = {
	.head = on_head,
	.request = on_request,
	.drop = on_drop,
	.error_type = "application/json",
	.error = on_error,
};
