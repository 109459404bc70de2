// SPDX-License-Identifier: Apache-2.0
#include "p2p/tracker/tracker_client_priv.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/mutex.h"
#include "net/url.h"
#include "p2p/tracker/tracker_json.h"

#define MS INT64_C(1000000)
#define DEADLINE_NS (2000 * MS)
/* Connect timeout: when a tracker does not respond, time is left for the next one. */
#define CONNECT_MS 500u
#define BACKOFF_FIRST (250 * MS)
#define BACKOFF_MAX (4000 * MS)
#define LOST_FAILURES 2u /* a single failure may be an accident */
#define TOKEN_MAX 8192u

struct answer_place {
	char *url;             /* without a slash at its end */
	bool is_private;       /* secrets may be sent to it */
	unsigned int failures; /* failed calls in a row */
	enum tracker_state state;
	long status; /* HTTP status of its refusal */
	char why[ERROR_MSG_MAX];
	int64_t down_until;
};

struct tracker_client {
	struct http *http;
	char *token_file;
	int64_t deadline_ns;
	size_t n;
	/* Protects the changing members of places, and the counts. */
	pthread_mutex_t lock;
	struct answer_place places[TRACKER_URLS_MAX];
	uint64_t calls, failures;
	void (*changed)(void *arg, const char *url, enum tracker_state state,
			const char *why);
	void *arg;
};

/* Advice for failed calls: options of bootseerd. */
static const struct http_cures cures = {
	.plain = "give its URL as http:// (--service, --p2p-tracker)",
	.tls = "give its URL as https:// (--service, --p2p-tracker)",
	.ca = "name the authority's file: --service-ca-file",
	.ca_file = "--service-ca-file",
};

bool tracker_is_here(const char *url)
{
	return url_is_loopback(url);
}

bool tracker_is_private(const char *url)
{
	return url_is_secret(url) || tracker_is_here(url);
}

/* Takes a place for `url`. */
static int add_place(struct tracker_client *c, const char *url, bool plain_http,
		     struct error *err)
{
	struct answer_place *p = &c->places[c->n];
	size_t len = strlen(url);

	while (len > 0 && url[len - 1] == '/')
		len--;
	if (c->n == TRACKER_URLS_MAX)
		return error_set(err, EINVAL, "more than %u trackers",
				 TRACKER_URLS_MAX);
	p->is_private = plain_http || tracker_is_private(url);
	if (c->token_file && !p->is_private)
		return error_set(err, EINVAL,
				 "tracker '%s' would get the token in the "
				 "clear",
				 url);
	p->url = strndup(url, len);
	if (!p->url)
		return error_nomem(err);
	c->n++;
	return 0;
}

int tracker_client_new(const struct tracker_client_config *cfg,
		       struct tracker_client **ret, struct error *err)
{
	const struct http_config http = {
		.cures = &cures,
		.ca_file = cfg->ca_file,
		.cert_file = cfg->cert_file,
		.key_file = cfg->key_file,
		.allow_plain = true, /* as the URLs say */
		.stays = true,       /* follow no redirect: calls carry
		                      * secrets; */
		.is_direct = true, /* use no proxy, which could read http:// */
		.connect_timeout_ms = CONNECT_MS,
		.stall_timeout_ms = 2 * CONNECT_MS,
	};
	struct tracker_client *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return error_nomem(err);
	(void)pthread_mutex_init(&c->lock, NULL);
	c->deadline_ns = cfg->deadline_ns ? cfg->deadline_ns : DEADLINE_NS;
	c->changed = cfg->changed;
	c->arg = cfg->arg;
	rc = http_new(&http, &c->http, err);
	if (rc == 0 && cfg->token_file) {
		c->token_file = strdup(cfg->token_file);
		rc = c->token_file ? 0 : error_nomem(err);
	}
	for (char *const *u = cfg->urls; rc == 0 && *u; u++)
		rc = add_place(c, *u, cfg->plain_http, err);
	if (rc == 0 && c->n == 0)
		rc = error_set(err, EINVAL, "no tracker is named");
	if (rc < 0) {
		tracker_client_free(c);
		return rc;
	}
	*ret = c;
	return 0;
}

void tracker_client_free(struct tracker_client *c)
{
	if (!c)
		return;
	http_free(c->http);
	for (size_t i = 0; i < c->n; i++)
		free(c->places[i].url);
	free(c->token_file);
	(void)pthread_mutex_destroy(&c->lock);
	free(c);
}

void tracker_client_get_stats(struct tracker_client *c,
			      struct tracker_client_stats *ret)
{
	int64_t now = clock_now_ns();

	pthread_mutex_lock(&c->lock);
	*ret = (struct tracker_client_stats){
		.calls_total = c->calls,
		.failures_total = c->failures,
		.trackers = (unsigned int)c->n,
	};
	for (size_t i = 0; i < c->n; i++) {
		const struct answer_place *p = &c->places[i];

		ret->down += p->down_until > now;
		ret->good += p->state == TRACKER_GOOD;
		ret->lost += p->state == TRACKER_LOST;
		ret->refusing += p->state == TRACKER_REFUSES;
	}
	pthread_mutex_unlock(&c->lock);
}

size_t tracker_client_places(struct tracker_client *c,
			     struct tracker_place ret[TRACKER_URLS_MAX])
{
	pthread_mutex_lock(&c->lock);
	for (size_t i = 0; i < c->n; i++) {
		ret[i].url = c->places[i].url;
		ret[i].state = c->places[i].state;
		memcpy(ret[i].why, c->places[i].why, sizeof(ret[i].why));
	}
	pthread_mutex_unlock(&c->lock);
	return c->n;
}

/* ------------------------------------------------------------- who is asked --- */

static bool is_down(struct tracker_client *c, size_t i)
{
	AUTO_UNLOCK held = mutex_hold(&c->lock);

	return c->places[i].down_until > clock_now_ns();
}

/* How a call to a tracker ended. */
enum outcome {
	OUTCOME_DONE,
	OUTCOME_SILENT,   /* no answer, or "not now" */
	OUTCOME_REFUSED,  /* refuses this node: its token */
	OUTCOME_STRANGER, /* the server is not a tracker */
	OUTCOME_DOUBT,    /* not a tracker, or an invalid call */
	OUTCOME_OWN,      /* the answer concerns this call only */
};

/* The tracker's state after this outcome. */
static enum tracker_state next_state(const struct answer_place *p,
				     enum outcome o)
{
	switch (o) {
	case OUTCOME_DONE:
		return TRACKER_GOOD;
	case OUTCOME_REFUSED:
	case OUTCOME_STRANGER:
		return TRACKER_REFUSES;
	case OUTCOME_SILENT:
		/* A tracker that never answered is most likely set up wrong. */
		return p->failures >= LOST_FAILURES || p->state == TRACKER_NEW
			       ? TRACKER_LOST
			       : p->state;
	case OUTCOME_DOUBT:
		return p->state == TRACKER_GOOD ? TRACKER_GOOD
						: TRACKER_REFUSES;
	default:
		return p->state == TRACKER_REFUSES ? TRACKER_REFUSES
						   : TRACKER_GOOD;
	}
}

/* Do not call the tracker for a while, longer each time. */
static void pause_calls_to_tracker(struct answer_place *p)
{
	int64_t wait = BACKOFF_FIRST;

	for (unsigned int k = 0; k < p->failures && wait < BACKOFF_MAX; k++)
		wait *= 2;
	p->failures++;
	p->down_until = clock_now_ns() + wait;
}

/* Is the new state to be reported? */
static bool state_is_to_be_reported(const struct answer_place *p,
				    enum tracker_state state, long status)
{
	if (state == TRACKER_REFUSES)
		return p->state != state || p->status != status;
	if (state == TRACKER_GOOD)
		return p->state != state && p->state != TRACKER_NEW;
	return p->state != state;
}

/* Record the outcome of a call. `status` and `why`: of a failed call. */
static void answer_remember(struct tracker_client *c, size_t i, enum outcome o,
			    bool is_probe, long status, const char *why)
{
	struct answer_place *p = &c->places[i];
	bool is_away = o == OUTCOME_SILENT || o == OUTCOME_STRANGER;
	enum tracker_state state;
	bool is_told;

	pthread_mutex_lock(&c->lock);
	if (is_away) {
		/* A tracker that a probe did not reach may be there when it is
		 * needed, so it is still asked then. */
		if (!is_probe)
			pause_calls_to_tracker(p);
		c->failures++;
	} else {
		p->failures = 0;
		p->down_until = 0;
	}
	state = next_state(p, o);
	if (o == OUTCOME_SILENT || o == OUTCOME_OWN)
		status = p->status;
	is_told = c->changed && state_is_to_be_reported(p, state, status);
	p->state = state;
	p->status = status;
	if (state == TRACKER_GOOD)
		p->why[0] = '\0';
	else if (o != OUTCOME_OWN)
		(void)snprintf(p->why, sizeof(p->why), "%s", why);
	pthread_mutex_unlock(&c->lock);
	if (is_told)
		c->changed(c->arg, p->url, state,
			   state == TRACKER_GOOD ? "" : why);
}

/* The order of the trackers for an image. */
static int trackers_order(const struct tracker_client *c,
			  const struct digest *image,
			  size_t ret[TRACKER_URLS_MAX], struct error *err)
{
	const char *names[TRACKER_URLS_MAX];

	for (size_t i = 0; i < c->n; i++)
		names[i] = c->places[i].url;
	return rendezvous(image, names, c->n, ret, err);
}

/* ------------------------------------------------------------------ requests --- */

/* Read the token file at each call, because it may be replaced at any time. */
static int get_token(const struct tracker_client *c, struct buf *header,
		     struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	int rc;

	if (!c->token_file)
		return 0;
	rc = fs_read_file(c->token_file, TOKEN_MAX, &text, err);
	if (rc < 0)
		return error_wrap(err, rc, "--service-token-file");
	while (text.len && isspace((unsigned char)text.data[text.len - 1]))
		text.data[--text.len] = '\0';
	for (size_t i = 0; i < text.len; i++)
		if (!isgraph((unsigned char)text.data[i]))
			return error_set(err, EINVAL, "'%s' holds no token",
					 c->token_file);
	if (text.len == 0)
		return error_set(err, EINVAL, "'%s' is empty", c->token_file);
	if (buf_printf(header, "Authorization: Bearer %s", text.data) < 0)
		return error_nomem(err);
	return 0;
}

#define NO_TRACKER \
	"it is no tracker: --p2p-tracker wants the scheme, host and port of a " \
	"bootseer-registry"

/* Meaning of an HTTP status as the answer to a call, and to other requests. */
static const struct verdict {
	long status; /* 0: any other */
	int code;    /* ECONNREFUSED: another tracker may answer */
	enum outcome call, rest;
	/* Advice for a call, or for both; "": the answer has it. */
	const char *cure;
	bool is_cure_of_all;
} verdicts[] = {
	{ 200, 0, OUTCOME_DONE, OUTCOME_OWN, "", false },
	{ 400, EINVAL, OUTCOME_DOUBT, OUTCOME_OWN, "", false },
	{ 401, EACCES, OUTCOME_REFUSED, OUTCOME_REFUSED,
	  "put one that its --tokens has into the file of --service-token-file",
	  true },
	{ 403, EACCES, OUTCOME_REFUSED, OUTCOME_OWN,
	  "wanted in --service-token-file is one with read,write, for this node",
	  false },
	{ 404, ECONNREFUSED, OUTCOME_STRANGER, OUTCOME_STRANGER, NO_TRACKER,
	  true },
	{ 413, EINVAL, OUTCOME_DOUBT, OUTCOME_OWN, "", false },
	/* The tracker has no room for this image's members, and serves
	 * others. */
	{ 429, EBUSY, OUTCOME_OWN, OUTCOME_OWN, "", false },
	{ 501, EOPNOTSUPP, OUTCOME_DOUBT, OUTCOME_OWN, "", false },
	{ 503, EBUSY, OUTCOME_SILENT, OUTCOME_OWN, "", false },
	{ 0, ECONNREFUSED, OUTCOME_SILENT, OUTCOME_SILENT, "", false },
}, redirected = { 0, ECONNREFUSED, OUTCOME_STRANGER, OUTCOME_STRANGER,
		  "it leads elsewhere: name that place in --p2p-tracker",
		  true };

static const struct verdict *find_verdict_of_status(long status)
{
	const struct verdict *v = verdicts;

	if (status >= 300 && status < 400)
		return &redirected;
	while (v->status && v->status != status)
		v++;
	return v;
}

static int answer_judge(const struct http_response *r,
			const struct tracker_ask *a, enum outcome *ret,
			struct error *err)
{
	const struct verdict *v = find_verdict_of_status(r->status);
	const char *cure = a->is_call || v->is_cure_of_all ? v->cure : "";
	char reason[128] = "";

	*ret = OUTCOME_OWN;
	if (a->condition && r->status == 304)
		return 0;
	*ret = a->is_call ? v->call : v->rest;
	if (v->code == 0)
		return 0;
	if (r->body.len > 0)
		tracker_reason_from_json(r->body.data, r->body.len, reason,
					 sizeof(reason));
	/* A tracker gives a reason; without one, it is something else. */
	if (a->is_call && *ret == OUTCOME_DOUBT && !*reason)
		cure = NO_TRACKER;
	return error_set(err, *ret == OUTCOME_SILENT ? ECONNREFUSED : v->code,
			 "%ld%s%s%s%s", r->status, *reason ? ": " : "", reason,
			 *cure ? ": " : "", cure);
}

static int send_to(struct tracker_client *c, size_t i,
		   const struct tracker_ask *a, struct http_response *r,
		   struct error *err)
{
	AUTO_BUF url = BUF_INIT;
	struct http_request req = { .method = a->method,
				    .headers = a->headers };
	enum outcome o = OUTCOME_SILENT;
	struct error why = ERROR_INIT;
	int rc;

	if (buf_printf(&url, "%s%s", c->places[i].url, a->path) < 0)
		return error_nomem(err);
	req.url = url.data;
	req.deadline_ns = a->deadline_ns;
	req.pace = a->pace;
	if (a->body) {
		req.body = a->body->data;
		req.body_len = a->body->len;
	}
	rc = http_do(c->http, &req, r, &why);
	if (rc == -ENOMEM)
		return error_nomem(err);
	if (rc == -ECANCELED)
		return error_set(err, ECANCELED, "cancelled");
	rc = rc < 0 ? -ECONNREFUSED : answer_judge(r, a, &o, &why);
	/* An answer to a call with 200 is judged after reading its body. */
	if (o != OUTCOME_DONE)
		answer_remember(c, i, o, a->is_probe, r->status, why.msg);
	if (rc < 0 && err) {
		*err = why;
		(void)error_wrap(err, rc, "tracker %s", c->places[i].url);
	}
	return rc;
}

/* May another tracker answer what this one did not? */
static bool may_try_next_tracker(const struct tracker_ask *a, int rc)
{
	return rc == -ECONNREFUSED || rc == -EBUSY ||
	       (a->is_call && rc == -EACCES);
}

/* Add the token; without a readable token no tracker is asked. */
static int add_token(struct tracker_client *c, struct buf *header,
		     struct error *err)
{
	struct error why = ERROR_INIT;
	int rc = get_token(c, header, &why);

	if (rc == 0)
		return 0;
	for (size_t i = 0; i < c->n && rc != -ENOMEM; i++)
		answer_remember(c, i, OUTCOME_REFUSED, false, 0, why.msg);
	return error_set(err, rc == -ENOMEM ? ENOMEM : EACCES, "%s", why.msg);
}

static void count_call(struct tracker_client *c)
{
	pthread_mutex_lock(&c->lock);
	c->calls++;
	pthread_mutex_unlock(&c->lock);
}

#define HEADERS_MAX 4

/* Headers of the request; they point into `token`. */
static void add_headers(struct tracker_ask *a, const struct buf *token,
			const char *ret[HEADERS_MAX])
{
	size_t n = 0;

	if (token->len > 0)
		ret[n++] = token->data;
	if (a->body)
		ret[n++] = "Content-Type: application/json";
	if (a->condition)
		ret[n++] = a->condition;
	a->headers = ret;
}

int tracker_ask(struct tracker_client *c, const struct digest *image,
		struct tracker_ask *a, struct http_response *r,
		struct error *err)
{
	AUTO_BUF token = BUF_INIT;
	const char *headers[HEADERS_MAX] = { NULL };
	size_t at[TRACKER_URLS_MAX];
	bool is_asked = false, is_busy = false;
	int64_t end;
	int rc = trackers_order(c, image, at, err);

	if (rc == 0)
		rc = add_token(c, &token, err);
	if (rc < 0)
		return rc;
	add_headers(a, &token, headers);
	end = clock_now_ns() + c->deadline_ns;
	rc = error_set(err, EAGAIN,
		       "no tracker answered lately; asked again soon");
	for (size_t i = 0; i < c->n && clock_now_ns() < end; i++) {
		if (a->is_secret && !c->places[at[i]].is_private) {
			rc = error_set(err, EACCES,
				       "credentials are not told to %s: it is "
				       "no https://",
				       c->places[at[i]].url);
			continue;
		}
		if (is_down(c, at[i]))
			continue;
		/* Leave half of the time to the remaining trackers. */
		a->deadline_ns = end;
		if (i + 1 < c->n)
			a->deadline_ns -= (end - clock_now_ns()) / 2;
		/* Count a single call, however many trackers are asked. */
		if (!is_asked)
			count_call(c);
		is_asked = true;
		a->at = at[i];
		rc = send_to(c, at[i], a, r, err);
		if (!may_try_next_tracker(a, rc))
			break;
		is_busy = is_busy || rc == -EBUSY;
	}
	/* A busy tracker counts as present, even if the next does not answer. */
	if (rc == -ECONNREFUSED && is_busy)
		rc = error_wrap(err, -EBUSY, "others have no room");
	return rc;
}

int tracker_ask_one(struct tracker_client *c, size_t i, struct tracker_ask *a,
		    struct http_response *r, struct error *err)
{
	AUTO_BUF token = BUF_INIT;
	const char *headers[HEADERS_MAX] = { NULL };
	int rc = add_token(c, &token, err);

	if (rc < 0)
		return rc;
	add_headers(a, &token, headers);
	a->deadline_ns = clock_now_ns() + c->deadline_ns;
	a->at = i;
	count_call(c);
	return send_to(c, i, a, r, err);
}

int tracker_answered(struct tracker_client *c, const struct tracker_ask *a,
		     long status, const char *why, struct error *err)
{
	struct error none = ERROR_INIT;
	int rc;

	if (!why) {
		answer_remember(c, a->at, OUTCOME_DONE, a->is_probe, status,
				"");
		return 0;
	}
	err = err ? err : &none;
	rc = error_set(err, EPROTO, "its answer: %.90s: " NO_TRACKER, why);
	answer_remember(c, a->at, OUTCOME_STRANGER, a->is_probe, status,
			err->msg);
	return error_wrap(err, rc, "tracker %s", c->places[a->at].url);
}
