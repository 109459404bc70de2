// SPDX-License-Identifier: Apache-2.0
/*
 * Each request runs on a pool, or waits in its lane. When a peer disconnects, a call that still
 * waits is dropped, unless it must run in any case; a running call is told that its answer will
 * not be read.
 */
#include "net/control_server.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "net/control.h"
#include "net/lanes.h"

#define CALLS "/v1/"
#define TYPE_JSON "application/json"
#define TYPE_FIGURES "text/plain; version=0.0.4; charset=utf-8"
#define FIGURES_MAX (1u << 20)
/* limit for each step of a request on a socket that is open to everybody */
#define HURRY_NS (5 * NS_PER_S)
#define FIGURES_NS (30 * NS_PER_S)
#define ROOT_NS (300 * NS_PER_S) /* a loaded machine is slow */
#define ROOT_IDLE_NS (3600 * NS_PER_S)
#define FIGURES_CONNECTIONS 64
#define BODY_MEMORY (64u << 20)
#define ANSWER_MEMORY (64u << 20)
#define OWNER_MAX 24

struct control_server {
	struct control_server_config cfg; /* its path is `path` */
	char *path;
	struct httpd *http;
	bool stopped;
};

/* A request that has not been answered yet. */
struct control_work {
	struct work work;
	struct lane_turn turn;
	struct control_server *server;
	/* `request->user` points to this struct */
	struct httpd_request *request;
	struct control_call call;
	struct buf reply;
	int rc; /* result of answer() */
	char owner[OWNER_MAX];
	bool at_work; /* it runs on a pool */
};

/* ------------------------------------------------------------------- answers --- */

/* Pairs of errno and HTTP status. To convert in either direction, the first pair that
 * matches counts. */
static const struct {
	int code, status;
} statuses[] = {
	{ ENOENT, HTTPD_NOT_FOUND },   { ENOSYS, HTTPD_NOT_FOUND },
	{ EINVAL, HTTPD_BAD_REQUEST }, { EACCES, HTTPD_FORBIDDEN },
	{ EPERM, HTTPD_FORBIDDEN },    { EKEYREJECTED, HTTPD_FORBIDDEN },
	{ EMSGSIZE, HTTPD_TOO_LARGE }, { EBUSY, HTTPD_UNAVAILABLE },
	{ EBUSY, HTTPD_TOO_MANY },     { ETIMEDOUT, HTTPD_TIMEOUT },
};

int control_fail(const struct error *why, struct buf *reply)
{
	size_t i = 0;

	while (i < ARRAY_SIZE(statuses) && statuses[i].code != why->code)
		i++;
	if (control_error_format(why, reply, NULL) < 0)
		return -ENOMEM;
	return i < ARRAY_SIZE(statuses) ? statuses[i].status : HTTPD_INTERNAL;
}

int control_figures(struct control_call *call,
		    int (*text)(void *arg, struct buf *ret), void *arg,
		    struct buf *reply)
{
	struct error err = ERROR_INIT;

	if (strcmp(call->path, "/metrics") != 0) {
		error_set(&err, ENOENT, "what there is, is /metrics");
		return control_fail(&err, reply);
	}
	reply->limit = FIGURES_MAX;
	if (text(arg, reply) == 0) {
		call->type = TYPE_FIGURES;
		return HTTPD_OK;
	}
	buf_reset(reply);
	error_set(&err, EIO, "the figures are not known");
	return control_fail(&err, reply);
}

static int control_on_error(void *arg, int status, const char *message,
			    struct buf *ret)
{
	struct error err = ERROR_INIT;
	size_t i = 0;

	(void)arg;
	while (i < ARRAY_SIZE(statuses) && statuses[i].status != status)
		i++;
	error_set(&err, i < ARRAY_SIZE(statuses) ? statuses[i].code : EIO, "%s",
		  message);
	return control_error_format(&err, ret, NULL);
}

static void leave_lane_of_work(struct control_work *w, bool is_answered)
{
	if (w->turn.lane)
		lanes_leave(w->server->cfg.lanes, &w->turn, is_answered,
			    clock_now_ns());
}

/* Send the answer and free the call; the peer may have disconnected. */
static void control_answer(struct control_work *w, int status)
{
	struct httpd_reply r = { .status = status,
				 .type = w->call.type,
				 .body = w->reply };

	httpd_answer(w->request, &r);
	free(w);
}

static void control_refuse(struct control_work *w, int code, const char *why)
{
	struct error err = ERROR_INIT;
	int status;

	error_set(&err, code, "%s", why);
	buf_reset(&w->reply);
	w->call.type = TYPE_JSON;
	status = control_fail(&err, &w->reply);
	control_answer(w, status < 0 ? HTTPD_UNAVAILABLE : status);
}

/* --------------------------------------------------------------------- calls --- */

static bool is_wanted(const struct control_work *w)
{
	return w->call.goes_on || !atomic_load(&w->call.is_gone);
}

static void control_run(struct work *work)
{
	struct control_work *w = container_of(work, struct control_work, work);
	const struct control_server_config *cfg = &w->server->cfg;

	w->rc = -ECANCELED;
	if (is_wanted(w))
		w->rc = cfg->answer(cfg->arg, &w->call, &w->reply);
}

static void control_refuse_busy(struct control_work *w)
{
	char why[ERROR_MSG_MAX] = "too many calls at once";

	if (w->call.lane[0])
		w->server->cfg.lane_is_full(w->call.lane, why, sizeof(why));
	control_refuse(w, EBUSY, why);
}

static void control_submit(struct control_work *w)
{
	w->at_work = true;
	if (pool_submit(w->server->cfg.pools[w->call.kind], &w->work) == 0)
		return;
	w->at_work = false;
	leave_lane_of_work(w, false);
	control_refuse_busy(w);
}

static void control_on_turn(struct lane_turn *t)
{
	control_submit(container_of(t, struct control_work, turn));
}

/* answer() returned CONTROL_LATER: queue the call for another kind of thread. */
static void control_submit_later(struct control_work *w)
{
	int rc = 0;

	if (w->call.lane[0])
		rc = lanes_enter(w->server->cfg.lanes, w->call.lane, &w->turn,
				 clock_now_ns());
	if (rc < 0)
		control_refuse_busy(w);
	else if (rc == 0)
		control_submit(w);
}

static void control_done(struct work *work)
{
	struct control_work *w = container_of(work, struct control_work, work);

	w->at_work = false;
	leave_lane_of_work(w, !atomic_load(&w->call.is_gone));
	if (w->rc == CONTROL_LATER && is_wanted(w) && !w->server->stopped)
		control_submit_later(w);
	else if (w->rc >= HTTPD_OK)
		control_answer(w, w->rc);
	else
		control_refuse(w, ENOMEM, "out of memory, or it ends");
}

/* ------------------------------------------------------------------ requests --- */

static void control_refuse_method(struct httpd_request *r, bool is_call)
{
	struct error err = ERROR_INIT;
	struct httpd_reply refusal = { .status = HTTPD_METHOD_NOT_ALLOWED,
				       .type = TYPE_JSON };

	error_set(&err, EPROTONOSUPPORT, "%s",
		  is_call ? "a call is a POST"
			  : "calls are below " CALLS ": " CONTROL_ONE_RELEASE);
	if (buf_printf(&refusal.headers, "Allow: %s\r\n",
		       is_call ? "POST" : "GET, HEAD") < 0 ||
	    control_error_format(&err, &refusal.body, NULL) < 0)
		refusal.status = HTTPD_UNAVAILABLE;
	httpd_answer(r, &refusal);
}

static uint64_t control_on_head(void *arg, struct httpd_request *r)
{
	const struct control_server *s = arg;
	enum httpd_method method = r->head.method;
	bool is_call = strncmp(r->head.path, CALLS, strlen(CALLS)) == 0;
	struct control_work *w;

	if (is_call ? method != HTTPD_POST
		    : method != HTTPD_GET && method != HTTPD_HEAD) {
		control_refuse_method(r, is_call);
		return 0;
	}
	w = calloc(1, sizeof(*w));
	if (!w) {
		httpd_answer_error(r, HTTPD_UNAVAILABLE, "out of memory");
		return 0;
	}
	w->server = arg;
	w->request = r;
	w->work.run = control_run;
	w->work.done = control_done;
	w->turn.begin = control_on_turn;
	r->user = w;
	if (r->peer) {
		(void)snprintf(w->owner, sizeof(w->owner), "%" PRIx64,
			       r->peer->group);
		r->owner = w->owner;
	}
	return is_call ? s->cfg.body_max : 0;
}

static void control_on_drop(void *arg, struct httpd_request *r)
{
	(void)arg;
	free(r->user);
}

static void control_on_request(void *arg, struct httpd_request *r)
{
	struct control_work *w = r->user;

	(void)arg;
	w->call.path = r->head.path;
	w->call.body = r->body;
	w->call.len = r->head.content_length;
	w->call.peer = r->peer;
	w->call.arrived_ns = clock_now_ns();
	w->call.kind = CONTROL_QUICK;
	w->call.type = TYPE_JSON;
	control_submit(w);
}

/* The peer disconnected. A call that runs on a pool is left to end by itself, which is soon. */
static void control_on_gone(void *arg, struct httpd_request *r)
{
	struct control_work *w = r->user;

	(void)arg;
	atomic_store(&w->call.is_gone, true);
	if (w->at_work)
		return;
	leave_lane_of_work(w, false);
	control_refuse(w, ECANCELED, "whoever asked has left");
}

static const struct httpd_handler handler = {
	.head = control_on_head,
	.request = control_on_request,
	.drop = control_on_drop,
	.gone = control_on_gone,
	.error_type = TYPE_JSON,
	.error = control_on_error,
};

/* Limit of places that one owner's requests may hold: half; all requests of root count as
 * one owner's. */
static size_t max_control_connections(const struct control_server_config *cfg)
{
	if (cfg->listen)
		return FIGURES_CONNECTIONS;
	return cfg->group ? CONTROL_CONNECTIONS_MAX
			  : 2 * CONTROL_CONNECTIONS_MAX;
}

int control_server_new(const struct control_server_config *cfg,
		       struct control_server **ret, struct error *err)
{
	struct control_server *s = calloc(1, sizeof(*s));
	const int64_t patience = cfg->group    ? HURRY_NS
				 : cfg->listen ? FIGURES_NS
					       : ROOT_NS;
	struct httpd_config http = {
		.loop = cfg->loop,
		.name = cfg->name,
		.option = cfg->option,
		.listen = cfg->listen,
		.group = cfg->group,
		.connections_max = max_control_connections(cfg),
		.body_memory = BODY_MEMORY,
		.answer_memory = ANSWER_MEMORY,
		.idle_ns = cfg->group || cfg->listen ? patience : ROOT_IDLE_NS,
		.request_ns = patience,
		.handler = &handler,
		.arg = s,
	};
	int rc = 0;

	if (!s)
		return error_nomem(err);
	s->cfg = *cfg;
	if (cfg->path) {
		s->path = strdup(cfg->path);
		http.path = s->cfg.path = s->path;
		rc = s->path ? 0 : error_nomem(err);
	}
	if (rc == 0)
		rc = httpd_new(&http, &s->http, err);
	if (rc < 0) {
		free(s->path);
		free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

unsigned int control_server_port(const struct control_server *s)
{
	return httpd_port(s->http);
}

void control_server_stop(struct control_server *s)
{
	s->stopped = true;
	httpd_abort(s->http);
}

void control_server_free(struct control_server *s)
{
	if (!s)
		return;
	httpd_free(s->http);
	free(s->path);
	free(s);
}
