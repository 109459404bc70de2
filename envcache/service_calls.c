// SPDX-License-Identifier: Apache-2.0
#include "envcache/service_calls.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/backoff.h"
#include "common/bounded_json.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/text.h"
#include "net/service_client.h"

#define ANSWER_MAX (4u << 20)
#define ANSWER_INIT \
	{ \
		.head = HTTP_RESPONSE_INIT, .body = { .limit = ANSWER_MAX }, \
	}
#define BUSY_TRIES 5u
#define PAGE 1000 /* snapshots in one reply */
#define RETRY_LEAST_MS 50
#define RETRY_MOST_MS 10000
#define WHY_MAX 200
#define NUMBER_MAX \
	(INT64_C(1) << 53) /* of times and counts: whole numbers that JSON
	                    * can hold exactly */

/* ------------------------------------------------------------------------- ask --- */

static int bad_answer(struct error *err, const char *what)
{
	return error_set(err, EPROTO, "the service's answer has no good '%s'",
			 what);
}

static int parse_answer(const struct buf *body, json_t **ret, struct error *err)
{
	int rc = bounded_json_load(body->data ? body->data : "", body->len,
				   "the service's answer", ret, err);

	if (rc == -EINVAL) {
		rc = -EPROTO;
		if (err)
			err->code = EPROTO;
	}
	return rc;
}

/* Judge a reply's status.  If the service failed or is full (429, 500, 503), that is a refusal:
 * somebody who overloads the service must not make us trust the store instead.  The status of a
 * proxy (502, 504), or of a service too old to know the route, counts as no reply. */
static int check_answer(long status, int rc, struct error *err)
{
	if (status != 429 && status != 500 && status != 503)
		return rc;
	if (err)
		err->code = EREMOTEIO;
	return -EREMOTEIO;
}

/* Send a request; repeat it for some seconds if the service is busy. */
static int send_call(const struct env_calls *s, const struct service_request *r,
		     struct service_answer *ret, struct error *err)
{
	/* The first pause is 100 to 200 ms. */
	static const struct backoff backoff = { .first_ms = 200,
						.most_ms = 5000 };
	int rc;

	for (unsigned int i = 1;; i++) {
		rc = service_client_do(s->client, r, ret, err);
		if (rc >= 0 || ret->head.status != 503 || i == BUSY_TRIES)
			return rc < 0 ? check_answer(ret->head.status, rc, err)
				      : rc;
		service_answer_fini(ret);
		*ret = (struct service_answer)ANSWER_INIT;
		(void)backoff_wait(clock_now_ns() + backoff_ns(&backoff, i, 0),
				   NULL);
	}
}

/* Send a request.  Takes the body; the caller owns the reply. */
static int call_json(const struct env_calls *s, const char *method,
		     const struct buf *path, json_t *body, json_t **ret,
		     struct error *err)
{
	AUTO_FREE char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	const struct service_request r = {
		.method = method,
		.path = path->data,
		.headers = { body ? "Content-Type: application/json" : NULL },
		.body = text,
		.body_len = text ? strlen(text) : 0,
	};
	struct service_answer a = ANSWER_INIT;
	int rc = body && !text ? error_nomem(err) : 0;

	json_decref(body);
	if (rc == 0)
		rc = send_call(s, &r, &a, err);
	if (rc == 0)
		rc = parse_answer(&a.body, ret, err);
	service_answer_fini(&a);
	return rc;
}

/* Make the path "/v1/env/sha256:HEX/WHAT?repo=REPO". */
static int key_path(const struct env_calls *s, const struct digest *key,
		    const char *what, struct buf *ret, struct error *err)
{
	char text[DIGEST_STR_MAX];

	digest_format(key, text);
	return buf_printf(ret, "/v1/env/%s%s", text, what) < 0 ||
			       service_client_param(ret, "repo", s->repo) < 0
		       ? error_nomem(err)
		       : 0;
}

static int add_generation(struct buf *path, uint64_t generation,
			  struct error *err)
{
	return buf_printf(path, "&generation=%" PRIu64, generation) < 0
		       ? error_nomem(err)
		       : 0;
}

/* Make a change whose reply is {"NAME": 0 or 1}; 0 gives -ESTALE. */
static int call_change(const struct env_calls *s, const char *method,
		       const struct buf *path, json_t *body, const char *name,
		       struct error *err)
{
	AUTO_JSON *o = NULL;
	int rc = call_json(s, method, path, body, &o, err);

	if (rc == 0 && !json_is_integer(json_object_get(o, name)))
		rc = bad_answer(err, name);
	if (rc == 0 && json_integer_value(json_object_get(o, name)) == 0)
		rc = error_set(err, ESTALE,
			       "the service: not %s: another node has the "
			       "turn now, or there is no such snapshot",
			       name);
	return rc;
}

/* ------------------------------------------------------------------------ read --- */

/* A number in the reply, bounded so that sums cannot overflow. */
static int64_t get_bounded_number(const json_t *o, const char *name)
{
	const int64_t n = json_integer_value(json_object_get(o, name));

	return n < 0 ? 0 : n > NUMBER_MAX ? NUMBER_MAX : n;
}

static int read_snapshot(const json_t *o, int64_t now_ms, struct env_said *ret,
			 struct error *err)
{
	const char *capture = json_text_of(o, "capture"),
		   *bad = json_text_of(o, "bad");

	if (digest_parse(json_text_of(o, "key"), &ret->key, NULL) < 0)
		return bad_answer(err, "key");
	if (strlen(capture) != ENV_CAPTURE_ROOM - 1 ||
	    strspn(capture, "0123456789abcdef") != ENV_CAPTURE_ROOM - 1)
		return bad_answer(err, "capture");
	if (digest_parse(json_text_of(o, "description"), &ret->description,
			 NULL) < 0)
		return bad_answer(err, "description");
	memcpy(ret->capture, capture, ENV_CAPTURE_ROOM);
	ret->has_snapshot = true;
	ret->age_ms = now_ms - get_bounded_number(o, "made_ms");
	ret->unused_ms = now_ms - get_bounded_number(o, "used_ms");
	ret->marks = (struct env_marks){
		.is_pinned = json_is_true(json_object_get(o, "pinned")),
		.is_bad = *bad != '\0',
	};
	(void)snprintf(ret->marks.bad_why, sizeof(ret->marks.bad_why),
		       " by %.160s", bad);
	text_make_printable(ret->marks.bad_why);
	return 0;
}

int env_calls_get(const struct env_calls *s, const struct digest *key,
		  struct env_said *ret, struct error *err)
{
	struct env_said said = { .has_snapshot = false };
	AUTO_BUF path = BUF_INIT;
	AUTO_JSON *o = NULL;
	json_t *snap;
	int rc = key_path(s, key, "", &path, err);

	if (rc == 0)
		rc = call_json(s, "GET", &path, NULL, &o, err);
	if (rc < 0)
		return rc;
	snap = json_object_get(o, "snapshot");
	if (!snap)
		rc = bad_answer(err, "snapshot");
	else if (!json_is_null(snap))
		rc = read_snapshot(snap, get_bounded_number(o, "now_ms"), &said,
				   err);
	if (rc == 0 && said.has_snapshot && !digest_equal(&said.key, key))
		rc = bad_answer(err, "key");
	if (rc == 0)
		*ret = said;
	return rc;
}

static int list_page(const struct env_calls *s, const char *begins,
		     const char *after, json_t **ret, struct error *err)
{
	AUTO_BUF path = BUF_INIT;

	if (buf_puts(&path, "/v1/env") < 0 ||
	    service_client_param(&path, "repo", s->repo) < 0 ||
	    service_client_param(&path, "begins", *begins ? begins : NULL) <
		    0 ||
	    service_client_param(&path, "after", *after ? after : NULL) < 0 ||
	    buf_printf(&path, "&limit=%d", PAGE) < 0)
		return error_nomem(err);
	return call_json(s, "GET", &path, NULL, ret, err);
}

int env_calls_list(const struct env_calls *s, const char *begins,
		   int (*fn)(void *arg, const struct env_said *one,
			     struct error *err),
		   void *arg, struct error *err)
{
	char after[DIGEST_STR_MAX] = "";
	size_t n;
	int rc;

	do {
		json_t *o = NULL, *list, *one;
		size_t i;

		rc = list_page(s, begins, after, &o, err);
		if (rc < 0)
			return rc;
		list = json_object_get(o, "environments");
		n = json_array_size(list);
		json_array_foreach(list, i, one)
		{
			struct env_said said;

			rc = read_snapshot(one, get_bounded_number(o, "now_ms"),
					   &said, err);
			if (rc == 0)
				rc = fn(arg, &said, err);
			if (rc < 0)
				break;
			digest_format(&said.key, after);
		}
		json_decref(o);
	} while (rc == 0 && n == PAGE);
	return rc;
}

/* ---------------------------------------------------------------------- leases --- */

static int read_lease(const json_t *o, struct env_lease_said *ret,
		      struct error *err)
{
	const char *state = json_text_of(o, "state");
	int64_t retry = get_bounded_number(o, "retry_ms");
	const char *by = json_string_value(
		json_object_get(json_object_get(o, "lease"), "by"));

	(void)snprintf(ret->holder, sizeof(ret->holder), "%s", by ? by : "");
	ret->failures = get_bounded_number(o, "failures");
	ret->generation = (uint64_t)get_bounded_number(o, "generation");
	ret->retry_ms = (uint32_t)(retry < RETRY_LEAST_MS  ? RETRY_LEAST_MS
				   : retry > RETRY_MOST_MS ? RETRY_MOST_MS
							   : retry);
	if (strcmp(state, "yours") == 0 && ret->generation > 0)
		ret->state = ENV_LEASE_YOURS;
	else if (strcmp(state, "made") == 0)
		ret->state = ENV_LEASE_MADE;
	else if (strcmp(state, "failed") == 0)
		ret->state = ENV_LEASE_FAILED;
	else if (strcmp(state, "held") == 0 || strcmp(state, "free") == 0)
		ret->state = ENV_LEASE_HELD; /* "free": the lease was lost
		                              * to another node */
	else
		return bad_answer(err, "state");
	return 0;
}

int env_calls_take(const struct env_calls *s, const struct digest *key,
		   const struct env_lease_ask *want, struct env_lease_said *ret,
		   struct error *err)
{
	json_t *o = NULL, *body = json_pack("{s:s,s:I}", "by", want->by,
					    "ttl_ms", (json_int_t)want->ttl_ms);
	AUTO_BUF path = BUF_INIT;
	int rc = body ? 0 : error_set(err, EINVAL, "the host's name is odd");

	if (rc == 0 &&
	    ((*want->instead &&
	      json_object_set_new(body, "instead", json_string(want->instead)) <
		      0) ||
	     (want->failures >= 0 &&
	      json_object_set_new(body, "failures",
				  json_integer(want->failures)) < 0)))
		rc = error_nomem(err);
	if (rc == 0)
		rc = key_path(s, key, "/lease", &path, err);
	if (rc < 0) {
		json_decref(body);
		return rc;
	}
	rc = call_json(s, "POST", &path, body, &o, err);
	if (rc == 0)
		rc = read_lease(o, ret, err);
	json_decref(o);
	return rc;
}

int env_calls_renew(const struct env_calls *s, const struct digest *key,
		    uint64_t generation, struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	int rc = key_path(s, key, "/lease", &path, err);

	if (rc == 0)
		rc = add_generation(&path, generation, err);
	return rc < 0 ? rc : call_change(s, "PUT", &path, NULL, "renewed", err);
}

int env_calls_drop(const struct env_calls *s, const struct digest *key,
		   uint64_t generation, bool has_failed, struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	int rc = key_path(s, key, "/lease", &path, err);

	if (rc == 0)
		rc = add_generation(&path, generation, err);
	if (rc == 0 && has_failed && buf_puts(&path, "&failed=1") < 0)
		rc = error_nomem(err);
	return rc < 0 ? rc
		      : call_change(s, "DELETE", &path, NULL, "dropped", err);
}

int env_calls_publish(const struct env_calls *s, uint64_t generation,
		      const struct env_snapshot *snap,
		      const struct digest *description, int64_t ttl_ms,
		      struct error *err)
{
	char text[DIGEST_STR_MAX];
	AUTO_BUF path = BUF_INIT;
	json_t *body;
	int rc = key_path(s, &snap->key.digest, "", &path, err);

	if (rc == 0)
		rc = add_generation(&path, generation, err);
	if (rc < 0)
		return rc;
	digest_format(description, text);
	body = json_pack("{s:s,s:s,s:s,s:s,s:I}", "capture", snap->folder,
			 "description", text, "by", *snap->by ? snap->by : "?",
			 "program", *snap->program ? snap->program : "?",
			 "stored", (json_int_t)snap->stored);
	if (!body ||
	    (ttl_ms &&
	     json_object_set_new(body, "ttl_ms", json_integer(ttl_ms)) < 0)) {
		json_decref(body);
		return error_nomem(err);
	}
	return call_change(s, "PUT", &path, body, "published", err);
}

/* ----------------------------------------------------------------------- marks --- */

static int put_note(const struct env_calls *s, const struct env_snapshot *snap,
		    json_t *body, struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	int rc = body ? key_path(s, &snap->key.digest, "", &path, err)
		      : error_nomem(err);

	if (rc == 0 && service_client_param(&path, "capture", snap->folder) < 0)
		rc = error_nomem(err);
	if (rc < 0) {
		json_decref(body);
		return rc;
	}
	return call_change(s, "POST", &path, body, "noted", err);
}

int env_calls_used(const struct env_calls *s, const struct env_snapshot *snap,
		   struct error *err)
{
	return put_note(s, snap, json_pack("{s:s}", "what", "used"), err);
}

int env_calls_bad(const struct env_calls *s, const struct env_snapshot *snap,
		  const char *host, const char *why, struct error *err)
{
	char text[WHY_MAX + 1];

	(void)snprintf(text, sizeof(text), "%.60s: %s", host, why);
	for (char *p = text; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
	return put_note(s, snap,
			json_pack("{s:s,s:s}", "what", "bad", "why", text),
			err);
}

int env_calls_pin(const struct env_calls *s, const struct digest *key,
		  bool is_pinned, struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	int rc = key_path(s, key, "/pin", &path, err);

	return rc < 0 ? rc
		      : call_change(s, is_pinned ? "PUT" : "DELETE", &path,
				    NULL, is_pinned ? "pinned" : "unpinned",
				    err);
}

int env_calls_remove(const struct env_calls *s, const struct digest *key,
		     struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	int rc = key_path(s, key, "", &path, err);

	return rc < 0 ? rc
		      : call_change(s, "DELETE", &path, NULL, "removed", err);
}
