// SPDX-License-Identifier: Apache-2.0
#include "profiler/follow/pod_watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/hash.h"
#include "common/log.h"
#include "common/periodic.h"
#include "net/http.h"
#include "net/url.h"
#include "profiler/emit/emit.h"
#include "profiler/follow/pod_stages.h"

#define EMITTER_NAME "pods"
#define ASK_S 10
#define TIMEOUT_MS 10000u
#define TOKEN_MAX 8192
/* events remembered as sent; when full, all are forgotten and sent again */
#define SAID_MAX 65536u

static const struct http_cures cures = {
	.plain = "--pod-status with an http:// address",
	.tls = "--pod-status with an https:// address",
	.ca = "--pod-status-ca-file with the kubelet's certificate",
	.ca_file = "--pod-status-ca-file",
};

struct pod_said {
	UT_hash_handle hh;
	int64_t id;
};

struct pod_watch {
	struct pod_watch_config cfg;
	struct http *http; /* NULL: the list is read from a file */
	struct stage_emitter *to;
	struct pod_said *said;
	bool is_told; /* the reason why the list is not available was logged */
	struct periodic *thread;
};

int pod_watch_new(const struct pod_watch_config *cfg, struct pod_watch **ret,
		  struct error *err)
{
	const struct http_config http = {
		.cures = &cures,
		.ca_file = cfg->ca_file,
		.allow_plain = true,
		.stays = true,
		.is_direct = true,
		.connect_timeout_ms = TIMEOUT_MS,
		.stall_timeout_ms = TIMEOUT_MS,
	};
	bool is_url = url_is_http(cfg->from);
	struct pod_watch *w = calloc(1, sizeof(*w));
	int rc = w ? 0 : error_nomem(err);

	if (rc == 0 && is_url && cfg->token_file && !url_is_secret(cfg->from) &&
	    !url_is_loopback(cfg->from))
		rc = error_set(
			err, EINVAL,
			"--pod-status '%s': the token of "
			"--pod-status-token-file goes to another machine "
			"by https:// only",
			cfg->from);
	if (rc == 0 && is_url)
		rc = http_new(&http, &w->http, err);
	if (rc < 0) {
		free(w);
		return rc;
	}
	w->cfg = *cfg;
	*ret = w;
	return 0;
}

static void forget_sent_events(struct pod_watch *w)
{
	struct pod_said *s, *next;

	HASH_ITER(hh, w->said, s, next)
	{
		HASH_DEL(w->said, s);
		free(s);
	}
}

/* ---------------------------------------------------------------------- asking --- */

static int ask_url(struct pod_watch *w, struct buf *ret, struct error *err)
{
	AUTO_FINI(http_response) r = HTTP_RESPONSE_INIT;
	const char *headers[] = { NULL, NULL };
	AUTO_BUF token = BUF_INIT;
	int rc = buf_puts(&token, "Authorization: Bearer ");

	if (rc == 0 && w->cfg.token_file) {
		rc = fs_read_file(w->cfg.token_file, TOKEN_MAX, &token, err);
		while (rc == 0 && token.len &&
		       strchr(" \t\r\n", token.data[token.len - 1]))
			token.data[--token.len] = '\0';
		headers[0] = token.data;
	}
	if (rc < 0)
		return error_wrap(err, rc, "--pod-status-token-file");
	rc = http_do(w->http,
		     &(struct http_request){
			     .method = "GET",
			     .url = w->cfg.from,
			     .headers = headers,
			     .deadline_ns = clock_now_ns() +
					    TIMEOUT_MS * (NS_PER_S / 1000),
		     },
		     &r, err);
	if (rc == 0 && r.status != 200)
		rc = error_set(err, EIO,
			       "status %ld: the kubelet wants a token that may "
			       "get nodes/proxy (--pod-status-token-file)",
			       r.status);
	if (rc == 0)
		rc = buf_append(ret, r.body.data ? r.body.data : "",
				r.body.len);
	return rc;
}

static int emit_new_event(void *arg, const struct stage_event *e)
{
	struct pod_watch *w = arg;
	struct pod_said *s;

	HASH_FIND(hh, w->said, &e->id, sizeof(e->id), s);
	if (s)
		return 0;
	if (HASH_COUNT(w->said) >= SAID_MAX)
		forget_sent_events(w);
	/* Not remembered, so the event is emitted again in the next round. */
	if (!stage_emit(w->to, e))
		return 0;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->id = e->id;
	HASH_ADD(hh, w->said, id, sizeof(s->id), s);
	if (!hash_has_added(s)) {
		free(s);
		return -ENOMEM;
	}
	return 0;
}

int pod_watch_once(struct pod_watch *w, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	int rc = 0;

	if (!w->to)
		rc = stage_emitter_new(w->cfg.events, EMITTER_NAME, &w->to,
				       err);
	if (rc == 0)
		rc = w->http ? ask_url(w, &text, err)
			     : fs_read_file(w->cfg.from, HTTP_BODY_MAX, &text,
					    err);
	if (rc == 0)
		rc = pod_stages_read(text.data ? text.data : "", text.len,
				     w->cfg.node, emit_new_event, w, err);
	return error_wrap(err, rc, "--pod-status '%s'", w->cfg.from);
}

/* ---------------------------------------------------------------------- thread --- */

static int64_t pod_watch_round(void *arg)
{
	struct pod_watch *w = arg;
	struct error why = ERROR_INIT;
	int rc = pod_watch_once(w, &why);

	if (rc < 0 && !w->is_told)
		log_warning("events",
			    "it is not known how long pods waited "
			    "reason=\"%s\"",
			    why.msg);
	if (rc == 0 && w->is_told)
		log_info("events", "pods are known again");
	w->is_told = rc < 0;
	return clock_now_ns() + ASK_S * NS_PER_S;
}

int pod_watch_start(struct pod_watch *w, struct error *err)
{
	return periodic_start(pod_watch_round, w, 0, &w->thread, err);
}

void pod_watch_free(struct pod_watch *w)
{
	if (!w)
		return;
	periodic_stop(w->thread);
	forget_sent_events(w);
	stage_emitter_free(w->to);
	http_free(w->http);
	free(w);
}
