// SPDX-License-Identifier: Apache-2.0
#include "profiler/send/send.h"

#include <errno.h>
#include <inttypes.h>

#include "common/clock.h"
#include "common/json.h"
#include "profiler/emit/emit.h"

#define EXCHANGES 3
#define ANSWER_MAX 65536u

static int64_t get_number(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

static int post_text(struct service_client *c, const char *path,
		     const char *node, const struct buf *body, json_t **ret,
		     struct error *err)
{
	AUTO_FINI(service_answer) a = { .body.limit = ANSWER_MAX };
	AUTO_BUF header = BUF_INIT;
	struct service_request r = {
		.method = "POST",
		.path = path,
		.headers = { "Content-Type: text/plain" },
		.body = body && body->len ? body->data : "",
		.body_len = body ? body->len : 0,
	};
	int rc;

	if (buf_printf(&header, "Bootseer-Node: %s", node) < 0)
		return error_nomem(err);
	r.headers[1] = header.data;
	rc = service_client_do(c, &r, &a, err);
	if (rc == 0) {
		*ret = json_loadb(a.body.data ? a.body.data : "", a.body.len, 0,
				  NULL);
		if (!*ret)
			rc = error_set(err, EPROTO, "%s: the answer is no JSON",
				       service_client_url(c));
	}
	return rc;
}

/* Assume that the service read its clock in the middle of the quickest exchange. */
int stage_clock_exchange(struct service_client *c, const char *node,
			 struct buf *ret, struct error *err)
{
	int64_t best = INT64_MAX, mono_offset = 0, wall_offset = 0;
	int rc = 0;

	for (int i = 0; i < EXCHANGES && rc == 0; i++) {
		int64_t wall = clock_wall_ns(), sent = clock_now_ns(), got, now;
		json_t *reply = NULL;

		rc = post_text(c, "/v1/events", node, NULL, &reply, err);
		got = clock_now_ns();
		now = get_number(reply, "now_ns");
		json_decref(reply);
		if (rc == 0 && now <= 0)
			rc = error_set(err, EPROTO,
				       "%s: the answer has no time",
				       service_client_url(c));
		if (rc < 0 || got - sent >= best)
			continue;
		best = got - sent;
		mono_offset = now - (sent + best / 2);
		wall_offset = now - (wall + best / 2);
	}
	buf_reset(ret);
	if (rc == 0 &&
	    buf_printf(ret, "%" PRIx64 ":%" PRId64 ":%" PRId64 ":%" PRId64,
		       stage_this_boot(), mono_offset, wall_offset, best) < 0)
		rc = error_nomem(err);
	return rc;
}

int stage_send(struct service_client *c, const char *node, const char *clock,
	       const struct buf *lines, struct stage_sent *ret,
	       struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	AUTO_JSON *reply = NULL;
	int rc;

	if (buf_puts(&path, "/v1/events") < 0 ||
	    service_client_param(&path, "clock", clock) < 0)
		return error_nomem(err);
	rc = post_text(c, path.data, node, lines, &reply, err);
	if (rc == 0)
		*ret = (struct stage_sent){
			.stored = (uint64_t)get_number(reply, "stored"),
			.doubles = (uint64_t)get_number(reply, "doubles"),
		};
	return rc;
}

bool stage_send_is_passing(int rc)
{
	return rc != -EINVAL && rc != -EACCES && rc != -EFBIG && rc != -ENOENT;
}
