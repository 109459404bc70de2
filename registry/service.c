// SPDX-License-Identifier: Apache-2.0
#include "registry/ckpt_db.h"
#include "registry/env_db.h"
#include "registry/image_db.h"
#include "registry/history_db.h"
#include "registry/service.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "p2p/rights/capability.h"
#include "registry/schema.h"
#include "registry/stage_db.h"
#include "registry/stage_quota.h"

#define SWEEP_NS INT64_C(60000000000)
#define SWEEP_AGAIN_NS INT64_C(1000000000)
#define SUM_MAX 1000                         /* starts summed up at once */
#define START_CACHE_MAX (192u * 1024 * 1024) /* bytes of analysed starts */
#define ANSWER_MEMORY (256u * 1024 * 1024)   /* until clients took them */
/* Sooner when so much of --max-bytes came in meanwhile. */
#define SWEEP_SHARE 16
#define NS_PER_S INT64_C(1000000000)

static void sweep_in(struct service *s, int64_t ns)
{
	if (!s->stopping &&
	    loop_timer_start(s->loop, &s->sweep_timer, ns, NULL) < 0)
		log_warning("service", "no sweep reason=\"out of memory\"");
}

/* --------------------------------------------------------------------- tokens --- */

static void set_unref(struct token_set *set)
{
	if (!set || --set->refs > 0)
		return;
	tokens_fini(&set->tokens);
	free(set);
}

static int load_tokens(struct service *s, struct error *err)
{
	struct token_set *set;
	int rc;

	if (!s->cfg->tokens)
		return 0;
	set = calloc(1, sizeof(*set));
	if (!set)
		return error_nomem(err);
	set->refs = 1;
	rc = tokens_load(s->cfg->tokens, &set->tokens, err);
	if (rc < 0) {
		set_unref(set);
		return rc;
	}
	set_unref(s->tokens);
	s->tokens = set;
	return 0;
}

/* Whoever has the key answers as this service.  (Without a signing key that is its
 * owner's alone there is no service.) */
static void tell_doubts(const struct service *s)
{
	const struct registry_config *cfg = s->cfg;
	struct error why = ERROR_INIT;

	if (cfg->tls_key && fs_check_private(cfg->tls_key, &why) < 0)
		log_warning("service",
			    "the key is not this service's alone "
			    "reason=\"%s: chmod 600 %s\"",
			    why.msg, cfg->tls_key);
	if (!cfg->tokens && !cfg->tls_client_ca && !cfg->insecure_no_auth)
		log_warning("service",
			    "nobody may call it: give it --tokens or "
			    "--tls-client-ca, or say --insecure-no-auth");
	if (s->tls && httpd_tls_check_time(s->tls, &why) < 0)
		log_warning("service",
			    "clients will not believe this service "
			    "reason=\"%s\"",
			    why.msg);
}

void service_reload(struct service *s)
{
	struct error err = ERROR_INIT;
	int rc = load_tokens(s, &err);

	if (rc == 0 && s->tls)
		rc = httpd_tls_reload(s->tls, &err);
	if (rc == 0)
		rc = issuer_reload(s->issuer, &err);
	if (rc < 0)
		log_error("service",
			  "reload failed, the old stays reason=\"%s\"",
			  err.msg);
	else
		log_info("service",
			 "reloaded what=\"tokens, certificate and keys\"");
	tell_doubts(s);
	atomic_fetch_add(&s->counts.reloads, 1);
}

/* ---------------------------------------------------------------------- calls --- */

const char *call_param(const struct call *c, const char *name)
{
	const char *v = c->values[route_param(c->route, name)];

	return v ? v : "";
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

/* Fail for who it is. */
static int PRINTF(4, 5) refuse(struct call *c, int status, struct error *err,
			       const char *fmt, ...)
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
	return refuse(c, HTTPD_FORBIDDEN, err,
		      "token '%s' is for %s only, repo '%s' is not",
		      c->token->name, c->token->repo, repo);
}

static bool is_store(const char *repo)
{
	return strstr(repo, "://");
}

const char *call_trace_prefix(const struct call *c, const char *repo)
{
	return is_store(repo) ? repo : call_prefix(c);
}

int call_check_trace_repo(struct call *c, const char *repo, struct error *err)
{
	const struct registry_config *cfg = c->service->cfg;
	const char *pulled = capability_repo_of(repo);

	if (!is_store(repo) || pulled)
		return call_check_repo(c, pulled ? pulled : repo, err);
	if (c->token ? token_has_store(c->token, repo) : cfg->insecure_no_auth)
		return 0;
	return refuse(c, HTTPD_FORBIDDEN, err,
		      "the tokens file does not say%s%s: stores=%s",
		      c->token ? " for " : "", c->token ? c->token->name : "",
		      repo);
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

/* What vouches for the name is the token or the certificate.  With neither, whoever
 * may write could do so as every node. */
int call_check_node(struct call *c, const char *node, struct error *err)
{
	const char *cert = c->req->peer_node;
	const struct token *t = c->token;

	if (!param_node.ok(node))
		return error_set(err, EINVAL, "node must be %s",
				 param_node.name);
	if (t && t->node && !token_has_node(t, node))
		return refuse(c, HTTPD_FORBIDDEN, err,
			      "token '%s' is for node '%s' only", t->name,
			      t->node);
	if (cert[0] && strcmp(node, cert) != 0)
		return refuse(c, HTTPD_FORBIDDEN, err,
			      "the certificate is of node '%s'", cert);
	/* An admin may read what is any node's, and speaks for none. */
	if (t && !t->node && !cert[0] &&
	    (c->route->role == ROLE_WRITE || !(t->roles & ROLE_ADMIN)))
		return refuse(c, HTTPD_FORBIDDEN, err,
			      "token '%s' is of no node: give it node=%s in "
			      "--tokens (node=* for any), or have the node "
			      "show its certificate (--tls-client-ca)",
			      t->name, node);
	return 0;
}

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
	return error_text(status, httpd_status_code(status), message, ret);
}

/* Why it failed, for HTTP. */
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
	rc = error_text(status, code, c->err.msg, &c->reply.body);
	if (!c->retry_after_s && status == HTTPD_UNAVAILABLE)
		c->retry_after_s = 1;
	if (rc == 0 && c->retry_after_s)
		rc = buf_printf(&c->reply.headers, "Retry-After: %d\r\n",
				c->retry_after_s);
	if (rc < 0)
		c->reply.type = NULL;
}

/* Who it is that shows a wrong token, and never what it shows. */
static void tell_refused(const struct call *c)
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
		tell_refused(c);
	httpd_answer(c->req, &c->reply);
	set_unref(c->set);
	free(c);
	if (atomic_load(&s->counts.new_bytes) >
	    s->limits.total_bytes / SWEEP_SHARE)
		sweep_in(s, 0);
}

static void run_call(struct owner_turn *t)
{
	struct call *c = container_of(t, struct call, turn);
	struct service *s = c->service;

	/* Whoever sent it has given up by now. */
	if (clock_now_ns() - c->req->begun_ns > 2 * s->cfg->request_timeout) {
		atomic_fetch_add(&s->counts.expired_calls, 1);
		c->rc = error_set(&c->err, EBUSY, "it waited too long");
		return;
	}
	c->rc = c->route->run(c, &c->err);
}

static void done_call(struct owner_turn *t)
{
	finish_call(container_of(t, struct call, turn));
}

static void drop_call(struct owner_turn *t)
{
	struct call *c = container_of(t, struct call, turn);

	c->rc = error_set(&c->err, EBUSY, "the service ends");
	finish_call(c);
}

/* Who has to wait for whose calls: as httpd_request.owner. */
const char *call_owner(const struct call *c)
{
	return c->token ? c->token->name : c->req->peer_node;
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
	c->turn.done = done_call;
	c->turn.drop = drop_call;
	rc = turns_submit(c->route->is_asking ? s->asking : s->turns, &c->turn,
			  call_owner(c));
	if (rc < 0) {
		c->rc = error_set(&c->err, EBUSY, "too much is waiting");
		finish_call(c);
	}
}

/* ---------------------------------------------------------------------- heads --- */

/* Without a tokens file a node's certificate lets it do what nodes do.  That everybody
 * may do everything is said, also on loopback: others have accounts here, too. */
static int check_certificate(struct call *c, struct error *err)
{
	const struct registry_config *cfg = c->service->cfg;

	if (cfg->insecure_no_auth)
		return 0;
	if (c->req->peer_node[0] && c->route->role != ROLE_ADMIN)
		return 0;
	if (c->req->peer_node[0])
		return refuse(c, HTTPD_FORBIDDEN, err,
			      "node '%s' has not the role for this: admin, "
			      "which a token of --tokens gives",
			      c->req->peer_node);
	if (call_header(c, "WWW-Authenticate", "Bearer") < 0)
		return error_nomem(err);
	return refuse(
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
		return refuse(c, HTTPD_UNAUTHORIZED, err,
			      "a valid token is needed: %s",
			      shown ? "this one is not known" : "none came");
	}
	c->set = s->tokens;
	c->set->refs++;
	if (!(c->token->roles & c->route->role))
		return refuse(c, HTTPD_FORBIDDEN, err,
			      "token '%s' has not the role for this: %s",
			      c->token->name, token_role_name(c->route->role));
	return 0;
}

/* A name in the head is checked before the body is read. */
static int check_named(struct call *c, struct error *err)
{
	size_t i = route_param(c->route, "Bootseer-Node");

	return c->route->params[i].name ? call_check_node(c, c->values[i], err)
					: 0;
}

static int check_head(struct call *c, struct error *err)
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
	return rc < 0 ? rc : check_named(c, err);
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
	c->rc = check_head(c, &c->err);
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

/* A request that was accepted, but whose body never came. */
static void on_drop(void *arg, struct httpd_request *r)
{
	struct call *c = r->user;

	set_unref(c->set);
	httpd_reply_fini(&c->reply);
	free(c);
}

/* ---------------------------------------------------------------------- sweep --- */

/* Starts that were heard of last before the time that traces are kept. */
static void sweep_starts(struct service *s)
{
	struct error err = ERROR_INIT;
	int n = stage_db_sweep(s->db, time(NULL) - s->limits.retention_s, &err);

	if (n < 0)
		log_warning("service",
			    "sweep of starts failed, tried again later "
			    "reason=\"%s\"",
			    err.msg);
	else if (n > 0)
		log_info("service", "sweep forgot starts of jobs=%d", n);
}

/* One that fails always keeps none of the others from being summed up, as long as there are
 * fewer of the kind than are asked for at once.  True: this is none of the start's own. */
static bool is_sum_over(int rc, const char *what, int64_t id,
			const struct error *err)
{
	if (rc >= 0)
		return false;
	log_warning("service",
		    "summing up %s of a start failed, tried again later "
		    "start=%" PRId64 " reason=\"%s\"",
		    what, id, err->msg);
	return rc == -ECONNREFUSED || rc == -EBUSY || rc == -ENOSPC ||
	       rc == -ENOMEM;
}

static int sum_start(struct service *s, int64_t id, struct error *err)
{
	const struct start_found *f = NULL;
	int rc = start_cache_get(s->start_cache, id, &f, err);

	/* It may have been forgotten meanwhile. */
	if (rc == -ENOENT)
		return 0;
	if (rc == 0)
		rc = history_db_add(s->db, f, err);
	if (rc > 0)
		stage_times_add(s->stage_times, &f->report);
	start_cache_put(s->start_cache, f);
	return rc;
}

/* Starts that are over, into what is kept of them.  True: there may be more. */
static bool sum_starts(struct service *s)
{
	int64_t now = time(NULL), ids[SUM_MAX];
	struct error err = ERROR_INIT;
	int n = history_db_due(s->db, now, ids, SUM_MAX, &err), n_summed = 0;
	bool is_over = n < 0;
	int rc = n;

	for (int i = 0; !is_over && i < n; i++) {
		rc = sum_start(s, ids[i], &err);
		is_over = is_sum_over(rc, "times", ids[i], &err);
		n_summed += rc >= 0;
	}
	if (!is_over)
		rc = history_db_sweep(s->db, now - s->limits.retention_s, now,
				      &err);
	if (n < 0 || (!is_over && rc < 0))
		log_warning("service",
			    "summing up starts failed, tried again later "
			    "reason=\"%s\"",
			    err.msg);
	else if (n_summed > 0)
		log_info("service", "summed up starts of jobs=%d", n_summed);
	return !is_over && rc >= 0 && n == SUM_MAX && n_summed > 0;
}

static int sum_checkpoint(struct service *s, int64_t now, int64_t id,
			  struct error *err)
{
	const struct ckpt_found *f = NULL;
	int rc = ckpt_cache_sum(s->ckpt_cache, id, &f, err);

	if (rc == 0)
		rc = ckpt_db_put(s->db, now, f, err);
	ckpt_cache_put(s->ckpt_cache, f);
	/* It may have been forgotten meanwhile. */
	return rc == -ENOENT ? 0 : rc;
}

/* What starts loaded and saved since they were looked at.  True: there may be more. */
static bool sum_checkpoints(struct service *s)
{
	int64_t now = time(NULL), ids[SUM_MAX];
	struct error err = ERROR_INIT;
	int n = ckpt_db_due(s->db, now, ids, SUM_MAX, &err), n_summed = 0;
	bool is_over = n < 0;

	if (n < 0)
		log_warning("service",
			    "summing up checkpoints failed, tried again later "
			    "reason=\"%s\"",
			    err.msg);
	for (int i = 0; !is_over && i < n; i++) {
		int rc = sum_checkpoint(s, now, ids[i], &err);

		is_over = is_sum_over(rc, "checkpoints", ids[i], &err);
		n_summed += rc >= 0;
	}
	return !is_over && n == SUM_MAX && n_summed > 0;
}

/* Environments that nobody used for as long as traces are kept. */
static void sweep_environments(struct service *s)
{
	int64_t now_ms = (int64_t)time(NULL) * 1000;
	struct error err = ERROR_INIT;
	int n = env_db_sweep(s->db, now_ms - s->limits.retention_s * 1000,
			     now_ms, &err);

	if (n < 0)
		log_warning("service",
			    "sweep of environments failed, tried again later "
			    "reason=\"%s\"",
			    err.msg);
	else if (n > 0)
		log_info("service", "sweep forgot keys of environments=%d", n);
}

static void sweep_images(struct service *s)
{
	struct error err = ERROR_INIT;
	int n = image_db_sweep(s->db, time(NULL) - s->limits.retention_s, &err);

	if (n < 0)
		log_warning("service",
			    "sweep of images failed, tried again later "
			    "reason=\"%s\"",
			    err.msg);
}

static void run_sweep(struct work *w)
{
	struct service *s = container_of(w, struct service, sweep_work);
	struct error err = ERROR_INIT;
	struct trace_totals t;
	unsigned int evicted = 0;

	s->sweep_again = sum_starts(s);
	s->sweep_again = sum_checkpoints(s) || s->sweep_again;
	sweep_starts(s);
	sweep_environments(s);
	sweep_images(s);
	if (trace_db_sweep(s->db, &s->limits, time(NULL), &t, &evicted, &err) <
	    0) {
		log_warning("service",
			    "sweep failed, tried again later "
			    "reason=\"%s\"",
			    err.msg);
		return;
	}
	atomic_store(&s->counts.starts, t.starts);
	atomic_store(&s->counts.votes, t.votes);
	atomic_store(&s->counts.bytes, t.bytes);
	atomic_fetch_add(&s->counts.evicted, evicted);
	if (evicted) {
		recent_forget(s->recent, NULL, NULL);
		log_info("service", "sweep forgot starts=%u", evicted);
	}
}

static void done_sweep(struct work *w)
{
	struct service *s = container_of(w, struct service, sweep_work);

	s->sweeping = false;
	sweep_in(s, s->sweep_again ? SWEEP_AGAIN_NS : SWEEP_NS);
}

static void on_sweep(struct loop_timer *t)
{
	struct service *s = container_of(t, struct service, sweep_timer);

	if (s->sweeping || s->stopping)
		return;
	atomic_store(&s->counts.new_bytes, 0);
	s->sweep_work.run = run_sweep;
	s->sweep_work.done = done_sweep;
	s->sweeping = pool_submit(s->pool, &s->sweep_work) == 0;
	if (!s->sweeping)
		sweep_in(s, SWEEP_NS);
}

/* -------------------------------------------------------------- start and stop --- */

static const struct httpd_handler handler = {
	.head = on_head,
	.request = on_request,
	.drop = on_drop,
	.error_type = "application/json",
	.error = on_error,
};

static void set_limits(struct service *s)
{
	const struct registry_config *cfg = s->cfg;

	s->limits = (struct trace_limits){
		.trace_max = cfg->trace_max,
		.memory_max = 4 * cfg->trace_max,
		.node_bytes = cfg->max_node_bytes,
		.node_hourly = cfg->max_node_hourly,
		.repo_bytes = cfg->max_repo_bytes,
		.total_bytes = cfg->max_bytes,
		.retention_s = cfg->retention / NS_PER_S,
	};
}

static int start_http(struct service *s, struct error *err)
{
	const struct registry_config *cfg = s->cfg;
	struct httpd_config http = {
		.name = "http",
		.option = "--listen",
		.loop = s->loop,
		.listen = cfg->listen,
		.connections_max = cfg->max_connections,
		.body_memory = cfg->body_memory,
		.answer_memory = ANSWER_MEMORY,
		.idle_ns = cfg->idle_timeout,
		.request_ns = cfg->request_timeout,
		.handler = &handler,
		.arg = s,
	};
	int rc = 0;

	if (cfg->tls_cert)
		rc = httpd_tls_new(cfg->tls_cert, cfg->tls_key,
				   cfg->tls_client_ca, &s->tls, err);
	http.tls = s->tls;
	return rc < 0 ? rc : httpd_new(&http, &s->httpd, err);
}

static int make_turns(struct service *s, struct error *err)
{
	const struct registry_config *cfg = s->cfg;
	int rc = turns_new(s->pool, cfg->threads, cfg->max_connections,
			   &s->turns, err);

	return rc < 0 ? rc
		      : turns_new(s->askers, cfg->threads, cfg->max_connections,
				  &s->asking, err);
}

int service_start(struct service *s, struct error *err)
{
	const struct db_config db = {
		.url = s->cfg->db,
		.schema = &schema,
		.timeout_ns = s->cfg->db_timeout,
	};
	int rc;

	set_limits(s);
	s->sweep_timer.fn = on_sweep;
	rc = make_turns(s, err);
	if (rc == 0)
		rc = load_tokens(s, err);
	if (rc == 0)
		rc = openapi_make(routes, n_routes, &s->openapi, err);
	if (rc == 0)
		rc = db_open(&db, &s->db, err);
	if (rc == 0)
		rc = hot_new(s->db, s->cfg->list_memory, s->cfg->db_timeout,
			     &s->hot, err);
	if (rc == 0)
		rc = recent_new(&s->recent, err);
	if (rc == 0)
		rc = stage_quota_new(s->cfg->max_node_events, &s->stage_quota,
				     err);
	if (rc == 0)
		rc = start_cache_new(s->db, START_CACHE_MAX, &s->start_cache,
				     err);
	if (rc == 0)
		rc = ckpt_cache_new(s->db, &s->ckpt_cache, err);
	if (rc == 0)
		rc = stage_times_new(&s->stage_times, err);
	if (rc == 0)
		rc = swarms_new(s->cfg, &s->swarms, err);
	if (rc == 0)
		rc = issuer_new(s->cfg, &s->issuer, err);
	if (rc == 0)
		rc = loop_timer_start(s->loop, &s->sweep_timer, 0, err);
	if (rc == 0)
		rc = start_http(s, err);
	if (rc == 0)
		tell_doubts(s);
	return rc;
}

static void on_idle(void *arg)
{
	struct service *s = arg;

	loop_stop(s->loop);
}

void service_stop(struct service *s)
{
	s->stopping = true;
	loop_timer_stop(&s->sweep_timer);
	httpd_stop(s->httpd, on_idle, s);
}

void service_drop(struct service *s)
{
	if (s->turns)
		turns_stop(s->turns);
	if (s->asking)
		turns_stop(s->asking);
}

void service_fini(struct service *s)
{
	turns_free(s->turns);
	turns_free(s->asking);
	httpd_free(s->httpd);
	httpd_tls_free(s->tls);
	swarms_free(s->swarms);
	issuer_free(s->issuer);
	recent_free(s->recent);
	stage_quota_free(s->stage_quota);
	start_cache_free(s->start_cache);
	ckpt_cache_free(s->ckpt_cache);
	stage_times_free(s->stage_times);
	hot_free(s->hot);
	db_close(s->db);
	set_unref(s->tokens);
	buf_fini(&s->openapi);
}
