// SPDX-License-Identifier: Apache-2.0
/* /v1/traces: docs/formats/registry-api.md. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/registry_host.h"
#include "recorder/trace.h"
#include "registry/call.h"
#include "registry/routes.h"

#define JSON "application/json"
#define RETRY_AGAIN_S 1
#define RETRY_HOURLY_S 600
/* While a recording is decoded, its unpacked bytes are in memory too. */
#define DECODING_FACTOR 2

/* ------------------------------------------------------------------------ get --- */

static const char *const matches[] = {
	[MATCH_OWN] = "own",
	[MATCH_RELATIVE] = "relative",
	[MATCH_WORKLOAD] = "workload",
	[MATCH_FAR] = "far",
};

struct lent {
	struct hot *hot;
	struct hot_list_text *list;
};

static void release_hot_list(void *arg)
{
	struct lent *l = arg;

	hot_put(l->hot, l->list);
	free(l);
}

/* Send the list's bytes without a copy; the call holds its reference until they are sent. */
static int send_shared(struct call *c, struct hot_list_text *list,
		       struct error *err)
{
	struct lent *l = malloc(sizeof(*l));

	if (!l) {
		hot_put(c->service->hot, list);
		return error_nomem(err);
	}
	*l = (struct lent){ .hot = c->service->hot, .list = list };
	c->reply.type = TRACE_MEDIA_TYPE;
	c->reply.shared = list->trace.data;
	c->reply.shared_len = list->trace.len;
	c->reply.release = release_hot_list;
	c->reply.release_arg = l;
	return 0;
}

static int send_json(struct call *c, struct hot_list_text *list,
		     struct error *err)
{
	AUTO(trace) t = NULL;
	int rc = trace_decode(list->trace.data, list->trace.len, &t, err);

	if (rc == 0)
		rc = trace_to_json(t, &c->reply.body, err);
	c->reply.type = JSON;
	hot_put(c->service->hot, list);
	return rc;
}

static int put_headers(struct call *c, const struct start *s,
		       struct hot_list_text *list, struct error *err)
{
	int rc = buf_printf(&c->reply.headers,
			    "Bootseer-Match: %s\r\nBootseer-Runs: %" PRIu64
			    "\r\nETag: %s\r\nVary: Accept\r\n",
			    matches[s->match], list->votes, list->etag);

	return rc < 0 ? error_nomem(err) : 0;
}

static bool wants_json(const struct call *c)
{
	const char *accept = httpd_head_get(&c->req->head, "Accept");

	return accept && strstr(accept, JSON);
}

static bool client_has_list(const struct call *c, struct hot_list_text *list)
{
	const char *tags = httpd_head_get(&c->req->head, "If-None-Match");

	return tags && strstr(tags, list->etag);
}

/* A prediction that is being sent, because there is no trace of the start or a related one. */
struct lent_prediction {
	struct predictions *predictions;
	struct prediction_text *text;
};

static void release_prediction(void *arg)
{
	struct lent_prediction *l = arg;

	predictions_put(l->predictions, l->text);
	free(l);
}

/* Send a prediction. -ENOENT: there is none, or the client did not ask for one. */
static int send_prediction(struct call *c, const struct start_query *q,
			   struct error *err)
{
	struct predictions *p = c->service->predictions;
	struct lent_prediction *l;
	const struct buf *trace;
	int rc;

	if (call_param(c, "Bootseer-Predict")[0] != '1' || q->exact ||
	    wants_json(c) || registry_host_is_store(q->repo))
		return error_set(err, ENOENT, "there is no trace yet");
	l = malloc(sizeof(*l));
	if (!l)
		return error_set(err, ENOENT, "there is no trace yet");
	l->predictions = p;
	rc = predictions_get(p, q->prefix, &l->text, err);
	if (rc < 0) {
		free(l);
		return rc;
	}
	if (call_header(c, "Bootseer-Match", "predicted") < 0) {
		release_prediction(l);
		return error_nomem(err);
	}
	trace = prediction_trace(l->text);
	c->reply.type = PREDICTION_MEDIA_TYPE;
	c->reply.shared = trace->data;
	c->reply.shared_len = trace->len;
	c->reply.release = release_prediction;
	c->reply.release_arg = l;
	return 0;
}

struct found_trace {
	struct start start;
	bool none;
};
_Static_assert(sizeof(struct found_trace) <= RECENT_VALUE_MAX, "it fits");

/* trace_db_find() with a cache of one second for all callers. */
static int find_start(struct call *c, const struct start_query *q,
		      struct start *ret, struct error *err)
{
	int64_t now = clock_now_ns();
	struct recent_key key = { .image = q->image, .repo = q->repo };
	AUTO_FREE char *text = NULL;
	struct found_trace f = { .none = false };
	uint64_t age = 0;
	int rc = 0;

	if (asprintf(&text, "get %s %s %s %s %d", q->image, q->workload,
		     q->repo, q->prefix, q->exact) < 0) {
		text = NULL;
		return error_nomem(err);
	}
	key.text = text;
	if (!recent_get(c->service->recent, &key, now, &f, sizeof(f), &age)) {
		rc = trace_db_find(c->service->db, q, time(NULL), &f.start,
				   err);
		f.none = rc == -ENOENT;
		if (rc == 0 || f.none)
			recent_put(c->service->recent, &key, now, &f, sizeof(f),
				   age);
	} else if (f.none) {
		rc = error_set(err, ENOENT, "there is no trace yet");
	}
	*ret = f.start;
	return rc;
}

static int get_hot_list(struct call *c, const struct start_query *q,
			struct error *err)
{
	struct hot_list_text *list;
	struct start s;
	int rc = find_start(c, q, &s, err);

	if ((rc == 0 || rc == -ENOENT) && s.wanted &&
	    call_header(c, "Bootseer-Wanted", "1") < 0)
		return error_nomem(err);
	if (rc == -ENOENT)
		return send_prediction(c, q, err);
	if (rc == 0)
		rc = hot_get(c->service->hot, &s, &list, err);
	if (rc < 0)
		return rc;
	rc = put_headers(c, &s, list, err);
	if (rc < 0 || client_has_list(c, list)) {
		hot_put(c->service->hot, list);
		c->reply.status = HTTPD_NOT_MODIFIED;
		return rc;
	}
	return wants_json(c) ? send_json(c, list, err)
			     : send_shared(c, list, err);
}

/* ----------------------------------------------------------------------- list --- */

struct trace_lines {
	json_t *array;
	int64_t now;
};

static int add_line(void *arg, const struct start_line *l)
{
	struct trace_lines *lines = arg;
	bool wanted =
		retention_wants((uint64_t)l->votes, l->newest, lines->now);
	json_t *o = json_pack(
		"{s:s,s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:b,s:b,s:I,s:I}",
		"image", l->image, "repo", l->repo, "workload", l->workload,
		"runs", (json_int_t)l->votes, "entries", (json_int_t)l->entries,
		"bytes", (json_int_t)l->bytes, "created_at",
		(json_int_t)l->created, "window_ms", (json_int_t)l->window_ms,
		"ready_ms", (json_int_t)l->ready_ms, "truncated",
		l->truncated != 0, "wanted", wanted, "received_at",
		(json_int_t)l->newest, "used_at", (json_int_t)l->used);

	return json_array_append_new(lines->array, o) < 0 ? -ENOMEM : 0;
}

static int list_traces(struct call *c, const char *image, struct error *err)
{
	struct trace_lines lines = { .array = json_array(), .now = time(NULL) };
	const char *repo = call_param(c, "repo");
	int rc = trace_db_list(c->service->db, image, repo,
			       call_trace_prefix(c, repo),
			       call_number(c, "limit", LIMIT_DEFAULT), add_line,
			       &lines, err);

	if (rc < 0) {
		json_decref(lines.array);
		return rc;
	}
	return call_send_json(c, json_pack("{s:o}", "traces", lines.array),
			      err);
}

int traces_get(struct call *c, struct error *err)
{
	const char *repo = call_param(c, "repo");
	const struct start_query q = {
		.image = call_param(c, "digest"),
		.workload = call_param(c, "workload"),
		.repo = repo,
		.prefix = call_trace_prefix(c, repo),
		.exact = call_param(c, "exact")[0] == '1',
	};
	int rc = repo[0] ? call_check_trace_repo(c, repo, err) : 0;

	if (rc < 0)
		return rc;
	return q.workload[0] ? get_hot_list(c, &q, err)
			     : list_traces(c, q.image, err);
}

int traces_list_repo(struct call *c, struct error *err)
{
	int rc = call_check_trace_repo(c, call_param(c, "repo"), err);

	return rc < 0 ? rc : list_traces(c, NULL, err);
}

/* ----------------------------------------------------------------------- post --- */

static int check_recording_is_of(const char *what, const char *said,
				 const char *asked, struct error *err)
{
	if (!said || !said[0] || strcmp(said, asked) == 0)
		return 0;
	return error_set(err, EINVAL, "the recording is of %s '%s', not '%s'",
			 what, said, asked);
}

static int check_trace(const struct call *c, const struct trace *t,
		       const struct trace_recording *r, struct error *err)
{
	char image[DIGEST_STR_MAX];
	int rc;

	digest_format(&t->info.image, image);
	rc = check_recording_is_of("image", image, r->image, err);
	if (rc == 0)
		rc = check_recording_is_of("workload", t->info.workload,
					   r->workload, err);
	if (rc == 0)
		rc = check_recording_is_of("repository", t->info.repo, r->repo,
					   err);
	if (rc == 0 && t->info.runs != 1)
		rc = error_set(err, EINVAL,
			       "a recording is of one run, this is of %u",
			       t->info.runs);
	if (rc == 0 && t->n == 0)
		rc = error_set(err, EINVAL, "it has no entries");
	if (rc == 0 && r->memory > c->service->limits.memory_max)
		rc = error_set(err, EFBIG,
			       "it takes %" PRIu64 " bytes decoded, %" PRIu64
			       " at most",
			       r->memory, c->service->limits.memory_max);
	return rc;
}

static int refuse_repeated_recording(struct call *c, struct error *err)
{
	c->retry_after_s = RETRY_AGAIN_S;
	return error_set(err, EDQUOT,
			 "this node sent the same start a moment ago");
}

/* Judge the recording by a cached verdict for this token and start, if there is a recent one. */
static int judge_recording(struct call *c, const struct trace_recording *r,
			   enum verdict *ret, struct error *err)
{
	struct recent *recent = c->service->recent;
	struct recent_key key = { .image = r->image, .repo = r->repo };
	int64_t now = clock_now_ns();
	AUTO_FREE char *text = NULL;
	uint64_t age = 0;
	int rc;

	if (asprintf(&text, "post %s %s %s %s", r->token, r->image, r->workload,
		     r->repo) < 0) {
		text = NULL;
		return error_nomem(err);
	}
	key.text = text;
	if (recent_get(recent, &key, now, ret, sizeof(*ret), &age))
		return 0;
	rc = trace_db_judge(c->service->db, r, time(NULL), ret, err);
	if (rc == 0 && *ret == VERDICT_ENOUGH)
		recent_put(recent, &key, now, ret, sizeof(*ret), age);
	return rc;
}

static int send_verdict(struct call *c, enum verdict v, struct error *err)
{
	struct service_counts *counts = &c->service->counts;
	const char *text = v == VERDICT_REPLACE  ? "replaced"
			   : v == VERDICT_ENOUGH ? "enough"
						 : "stored";

	atomic_fetch_add(v == VERDICT_REPLACE  ? &counts->replaced
			 : v == VERDICT_ENOUGH ? &counts->enough
					       : &counts->stored,
			 1);
	c->reply.status = HTTPD_ACCEPTED;
	return call_send_json(c, json_pack("{s:s}", "status", text), err);
}

static int store_recording(struct call *c, struct trace_recording *r,
			   struct error *err)
{
	struct service *s = c->service;
	AUTO(trace) t = NULL;
	unsigned int evicted = 0;
	enum verdict v;
	int rc = trace_decode_within(r->data, r->len,
				     DECODING_FACTOR * s->limits.memory_max, &t,
				     err);

	if (rc == 0) {
		r->memory = trace_memory(t);
		r->entries = t->n;
		r->info = &t->info;
		rc = check_trace(c, t, r, err);
	}
	if (rc < 0) {
		atomic_fetch_add(&s->counts.refused, 1);
		return rc;
	}
	rc = trace_db_put(s->db, &s->limits, r, time(NULL), &v, &evicted, err);
	atomic_fetch_add(&s->counts.evicted, evicted);
	/* Cached answers may be wrong for up to a second where a start was deleted to make room. */
	recent_forget(s->recent, r->image, r->repo);
	if (rc == -EDQUOT)
		c->retry_after_s = RETRY_HOURLY_S;
	if (rc < 0)
		return rc;
	if (v == VERDICT_TOO_SOON)
		return refuse_repeated_recording(c, err);
	atomic_fetch_add(&s->counts.new_bytes, r->len);
	return send_verdict(c, v, err);
}

static int post_recording(struct call *c, struct error *err)
{
	struct trace_recording r = {
		.image = call_param(c, "digest"),
		.workload = call_param(c, "workload"),
		.repo = call_param(c, "repo"),
		.token = c->token ? c->token->name : "",
		.node = call_param(c, "Bootseer-Node"),
		.data = c->req->body,
		.len = c->req->head.content_length,
	};
	enum verdict v;
	int rc = call_check_trace_repo(c, r.repo, err);

	if (rc == 0 && r.len == 0)
		rc = error_set(err, EINVAL, "there is no body");
	/* A large job sends a recording from each node within a second; few are needed, so decode
	 * only those. */
	if (rc == 0)
		rc = judge_recording(c, &r, &v, err);
	if (rc < 0)
		return rc;
	if (v == VERDICT_ENOUGH)
		return send_verdict(c, v, err);
	return v == VERDICT_TOO_SOON ? refuse_repeated_recording(c, err)
				     : store_recording(c, &r, err);
}

int traces_post(struct call *c, struct error *err)
{
	int rc = post_recording(c, err);

	if (rc == -EDQUOT)
		atomic_fetch_add(&c->service->counts.too_many, 1);
	return rc;
}

int traces_delete(struct call *c, struct error *err)
{
	const char *repo = call_param(c, "repo");
	int n = repo[0] ? call_check_trace_repo(c, repo, err) : 0;

	if (n == 0)
		n = trace_db_forget(c->service->db, call_param(c, "digest"),
				    call_param(c, "workload"), repo,
				    call_trace_prefix(c, repo), err);
	recent_forget(c->service->recent, call_param(c, "digest"), repo);
	if (n < 0)
		return n;
	return call_send_json(c, json_pack("{s:i}", "removed", n), err);
}
