// SPDX-License-Identifier: Apache-2.0
/*
 * JSON of calls and answers. Written by hand for speed, since a tracker answers a thousand calls a
 * second; parsed with jansson, since the input is not trusted.
 */
#include "p2p/tracker/tracker_json.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/base64.h"
#include "common/json.h"
#include "common/text.h"

#define MS INT64_C(1000000)
#define MS_MAX (INT64_C(3600) * 1000)
/* Numbers up to this are exact for every reader of JSON. */
#define EXACT_MAX ((json_int_t)1 << 53)

/* -------------------------------------------------------------------- writing --- */

/* Appends texts to a buffer; remembers the first failure. */
struct writer {
	struct buf *b;
	int rc;
};

static void put_text(struct writer *w, const char *text)
{
	if (w->rc == 0)
		w->rc = buf_puts(w->b, text);
}

static void put_number(struct writer *w, const char *key, uint64_t v)
{
	if (w->rc == 0)
		w->rc = buf_printf(w->b, "\"%s\":%" PRIu64 ",", key, v);
}

/* Write a string without escapes: a tracker accepts no names with control characters. */
static void put_string(struct writer *w, const char *key, const char *value)
{
	put_text(w, "\"");
	put_text(w, key);
	put_text(w, "\":\"");
	while (*value) {
		size_t n = strcspn(value, "\"\\");

		if (w->rc == 0 && n > 0)
			w->rc = buf_append(w->b, value, n);
		value += n;
		if (*value) {
			char escaped[3] = { '\\', *value++, '\0' };

			put_text(w, escaped);
		}
	}
	put_text(w, "\",");
}

/* Write `text` in place of the last comma. */
static void put_end(struct writer *w, const char *text)
{
	if (w->rc == 0 && w->b->data[w->b->len - 1] == ',')
		w->b->data[--w->b->len] = '\0';
	put_text(w, text);
}

static void put_list(struct writer *w, const char *key, const uint32_t *v,
		     size_t n)
{
	if (n == 0)
		return;
	put_text(w, "\"");
	put_text(w, key);
	put_text(w, "\":[");
	for (size_t i = 0; i < n && w->rc == 0; i++)
		w->rc = buf_printf(w->b, "%" PRIu32 ",", v[i]);
	put_end(w, "],");
}

static int buf_written(const struct writer *w, struct error *err)
{
	if (w->rc == -EFBIG)
		return error_set(err, EFBIG, "tracker: the text is too long");
	return w->rc < 0 ? error_nomem(err) : 0;
}

int tracker_call_to_json(const struct tracker_call *c, struct buf *ret,
			 struct error *err)
{
	struct writer w = { .b = ret };

	put_text(&w, "{");
	put_string(&w, "node", c->node);
	put_string(&w, "addr", c->addr);
	put_string(&w, "rack", c->rack);
	put_string(&w, "zone", c->zone);
	put_string(&w, "region", c->region);
	put_number(&w, "pieces", c->n_pieces);
	put_number(&w, "have", c->have);
	if (c->leaving)
		put_text(&w, "\"leaving\":true,");
	if (c->run) {
		put_number(&w, "run", c->run);
		put_number(&w, "opening", c->opening);
	}
	if (c->wants_members)
		put_text(&w, "\"members\":true,");
	put_list(&w, "want", c->want, c->n_want);
	put_list(&w, "want_bytes", c->want_bytes, c->n_want);
	if (c->n_demand)
		put_number(&w, "demand", c->n_demand);
	put_list(&w, "done", c->done, c->n_done);
	put_list(&w, "failed", c->failed, c->n_failed);
	if (c->origin_wait_ns > 0)
		put_number(&w, "origin_wait_ms",
			   (uint64_t)((c->origin_wait_ns + MS - 1) / MS));
	put_end(&w, "}");
	return buf_written(&w, err);
}

static void put_member(struct writer *w, const struct tracker_member *m)
{
	put_text(w, "{");
	put_string(w, "node", m->node);
	put_string(w, "addr", m->addr);
	if (m->rack[0])
		put_string(w, "rack", m->rack);
	if (m->zone[0])
		put_string(w, "zone", m->zone);
	if (m->region[0])
		put_string(w, "region", m->region);
	put_number(w, "have", m->have);
	put_end(w, "},");
}

int tracker_answer_to_json(const struct tracker_answer *a, struct buf *ret,
			   struct error *err)
{
	struct writer w = { .b = ret };

	put_text(&w, "{");
	put_number(&w, "epoch", a->epoch);
	put_number(&w, "swarm", a->swarm);
	put_number(&w, "interval_ms", (uint64_t)(a->interval_ns / MS));
	put_number(&w, "ttl_ms", (uint64_t)(a->ttl_ns / MS));
	put_number(&w, "retry_ms", (uint64_t)(a->retry_ns / MS));
	if (a->is_full)
		put_text(&w, "\"full\":true,");
	if (a->namesake[0])
		put_string(&w, "namesake", a->namesake);
	put_list(&w, "granted", a->granted, a->n_granted);
	if (a->n_members > 0) {
		put_text(&w, "\"members\":[");
		for (size_t i = 0; i < a->n_members; i++)
			put_member(&w, &a->members[i]);
		put_end(&w, "]");
	}
	put_end(&w, "}");
	return buf_written(&w, err);
}

/* -------------------------------------------------------------------- reading --- */

struct json_reader {
	const json_t *o;
	struct error *err;
	int rc;
};

static void json_bad(struct json_reader *r, const char *key, const char *wanted)
{
	if (r->rc == 0)
		r->rc = error_set(r->err, EINVAL, "'%s' is not %s", key,
				  wanted);
}

static void get_string(struct json_reader *r, const char *key, bool must,
		       char *ret, size_t size)
{
	const json_t *v = json_object_get(r->o, key);
	const char *text = json_string_value(v);

	ret[0] = '\0';
	if (!v && !must)
		return;
	if (!text || strlen(text) != json_string_length(v))
		json_bad(r, key, "a text");
	else if (strlen(text) >= size)
		json_bad(r, key, "that short");
	else
		(void)stpcpy(ret, text);
}

static json_int_t get_number(struct json_reader *r, const char *key, bool must,
			     json_int_t max)
{
	const json_t *v = json_object_get(r->o, key);
	json_int_t n = json_integer_value(v);

	if (!v && !must)
		return 0;
	if (!json_is_integer(v) || n < 0 || n > max) {
		json_bad(r, key, "a number in its range");
		return 0;
	}
	return n;
}

static bool get_flag(struct json_reader *r, const char *key)
{
	const json_t *v = json_object_get(r->o, key);

	if (v && !json_is_boolean(v))
		json_bad(r, key, "true or false");
	return json_is_true(v);
}

static size_t get_list(struct json_reader *r, const char *key, uint32_t *ret,
		       size_t max)
{
	const json_t *v = json_object_get(r->o, key);
	size_t n = json_array_size(v);

	if (!v)
		return 0;
	if (!json_is_array(v) || n > max) {
		json_bad(r, key, "a list, or too long");
		return 0;
	}
	for (size_t i = 0; i < n; i++) {
		const json_t *e = json_array_get(v, i);
		json_int_t p = json_integer_value(e);

		if (!json_is_integer(e) || p < 0 || p > UINT32_MAX)
			json_bad(r, key, "a list of numbers");
		ret[i] = (uint32_t)p;
	}
	return n;
}

/* The caller releases the result; NULL: `err` says why. */
static json_t *json_load_text(const char *text, size_t len, size_t max,
			      struct error *err)
{
	json_error_t why;
	json_t *o;

	if (len > max) {
		(void)error_set(err, EINVAL, "more than %zu bytes of JSON",
				max);
		return NULL;
	}
	o = json_loadb(text, len, 0, &why);
	if (!o)
		(void)error_set(err, EINVAL, "JSON, line %d: %s", why.line,
				why.text);
	else if (!json_is_object(o))
		(void)error_set(err, EINVAL, "JSON: wanted is an object");
	if (o && json_is_object(o))
		return o;
	json_decref(o);
	return NULL;
}

int tracker_call_from_json(const char *text, size_t len,
			   struct tracker_call_text *ret, struct error *err)
{
	AUTO_JSON *o = json_load_text(text, len, TRACKER_CALL_JSON_MAX, err);
	struct json_reader r = { .o = o, .err = err };
	struct tracker_call *c = &ret->call;

	if (!o)
		return -EINVAL;
	*c = (struct tracker_call){ .node = ret->node,
				    .addr = ret->addr,
				    .rack = ret->rack,
				    .zone = ret->zone,
				    .region = ret->region,
				    .want = ret->want,
				    .want_bytes = ret->want_bytes,
				    .done = ret->done,
				    .failed = ret->failed };
	c->leaving = get_flag(&r, "leaving");
	get_string(&r, "node", true, ret->node, sizeof(ret->node));
	get_string(&r, "addr", !c->leaving, ret->addr, sizeof(ret->addr));
	get_string(&r, "rack", false, ret->rack, sizeof(ret->rack));
	get_string(&r, "zone", false, ret->zone, sizeof(ret->zone));
	get_string(&r, "region", false, ret->region, sizeof(ret->region));
	c->n_pieces = (uint32_t)get_number(&r, "pieces", true,
					   TRACKER_IMAGE_PIECES_MAX);
	c->have = (uint32_t)get_number(&r, "have", false,
				       TRACKER_IMAGE_PIECES_MAX);
	c->run = (uint64_t)get_number(&r, "run", false, EXACT_MAX);
	c->opening = (uint64_t)get_number(&r, "opening", false, EXACT_MAX);
	c->wants_members = get_flag(&r, "members");
	c->n_want = get_list(&r, "want", ret->want, TRACKER_PIECES_MAX);
	if (get_list(&r, "want_bytes", ret->want_bytes, TRACKER_PIECES_MAX) !=
	    c->n_want)
		json_bad(&r, "want_bytes", "as long as 'want'");
	c->n_demand =
		(size_t)get_number(&r, "demand", false, TRACKER_PIECES_MAX);
	c->n_done = get_list(&r, "done", ret->done, TRACKER_PIECES_MAX);
	c->n_failed = get_list(&r, "failed", ret->failed, TRACKER_PIECES_MAX);
	c->origin_wait_ns =
		get_number(&r, "origin_wait_ms", false, MS_MAX) * MS;
	return r.rc;
}

static int get_member(const json_t *o, struct tracker_member *ret,
		      struct error *err)
{
	struct json_reader r = { .o = o, .err = err };

	get_string(&r, "node", true, ret->node, sizeof(ret->node));
	get_string(&r, "addr", true, ret->addr, sizeof(ret->addr));
	get_string(&r, "rack", false, ret->rack, sizeof(ret->rack));
	get_string(&r, "zone", false, ret->zone, sizeof(ret->zone));
	get_string(&r, "region", false, ret->region, sizeof(ret->region));
	ret->have = (uint32_t)get_number(&r, "have", false,
					 TRACKER_IMAGE_PIECES_MAX);
	return r.rc;
}

int tracker_answer_from_json(const char *text, size_t len,
			     struct tracker_answer *ret, struct error *err)
{
	AUTO_JSON *o = json_load_text(text, len, TRACKER_ANSWER_JSON_MAX, err);
	struct json_reader r = { .o = o, .err = err };
	const json_t *members;

	if (!o)
		return -EINVAL;
	ret->epoch = (uint64_t)get_number(&r, "epoch", true, EXACT_MAX);
	ret->swarm = (uint32_t)get_number(&r, "swarm", true, UINT32_MAX);
	ret->interval_ns = get_number(&r, "interval_ms", true, MS_MAX) * MS;
	ret->ttl_ns = get_number(&r, "ttl_ms", true, MS_MAX) * MS;
	ret->retry_ns = get_number(&r, "retry_ms", true, MS_MAX) * MS;
	ret->is_full = get_flag(&r, "full");
	get_string(&r, "namesake", false, ret->namesake, sizeof(ret->namesake));
	ret->n_granted =
		get_list(&r, "granted", ret->granted, TRACKER_PIECES_MAX);
	members = json_object_get(o, "members");
	ret->n_members = json_array_size(members);
	if (ret->n_members > TRACKER_MEMBERS_MAX)
		json_bad(&r, "members", "a list, or too long");
	for (size_t i = 0; r.rc == 0 && i < ret->n_members; i++)
		r.rc = get_member(json_array_get(members, i), &ret->members[i],
				  err);
	return r.rc;
}

/* -------------------------------------------------------------- capabilities --- */

#define CAPABILITY_ANSWER_MAX 4096u
#define KEYS_ANSWER_MAX (4u << 20) /* with the list of revocations */

void tracker_reason_from_json(const char *text, size_t len, char *ret,
			      size_t size)
{
	AUTO_JSON *o = json_load_text(text, len, TRACKER_ANSWER_JSON_MAX, NULL);
	const char *message = json_string_value(
		json_object_get(json_object_get(o, "error"), "message"));

	(void)snprintf(ret, size, "%s", message ? message : "");
	text_make_printable(ret);
}

static int put_json(const char *text, size_t len, void *buf)
{
	return buf_append(buf, text, len);
}

int capability_wish_to_json(const struct digest *image, const char *repo,
			    const char *node, const char *authorization,
			    struct buf *ret, struct error *err)
{
	char digest[DIGEST_STR_MAX];
	json_error_t why;
	AUTO_JSON *o = NULL;
	int rc;

	digest_format(image, digest);
	o = json_pack_ex(&why, 0, "{s:s,s:s,s:s,s:s}", "image", digest, "repo",
			 repo, "node", node, "authorization",
			 authorization ? authorization : "");
	if (!o && json_error_code(&why) == json_error_invalid_utf8)
		return error_set(err, EINVAL, "a name is not UTF-8");
	if (!o)
		return error_nomem(err);
	rc = json_dump_callback(o, put_json, ret, JSON_COMPACT);
	return rc < 0 ? error_nomem(err) : 0;
}

int capability_from_json(const char *text, size_t len, struct buf *ret,
			 int64_t *ret_not_after, struct error *err)
{
	AUTO_JSON *o = json_load_text(text, len, CAPABILITY_ANSWER_MAX, err);
	struct json_reader r = { .o = o, .err = err };
	const json_t *v = json_object_get(o, "capability");
	json_int_t not_after;
	int rc;

	if (!o)
		return -EINVAL;
	not_after = get_number(&r, "not_after", true, INT64_MAX);
	rc = r.rc;
	if (rc == 0 && (!json_string_length(v) ||
			base64_decode(json_string_value(v),
				      json_string_length(v), ret) < 0))
		rc = error_set(err, EINVAL, "'capability' is none");
	if (rc == 0)
		*ret_not_after = not_after;
	return rc;
}

static int add_revoked(struct revoked *r, const json_t *o, struct error *err)
{
	const char *image = json_string_value(json_object_get(o, "image"));
	const char *node = json_string_value(json_object_get(o, "node"));
	struct digest d;
	int rc = 0;

	if (!image || !node)
		return error_set(err, EINVAL,
				 "a revocation has no image or no node");
	if (*image)
		rc = digest_parse(image, &d, err);
	return rc < 0 ? rc : revoked_add(r, *image ? &d : NULL, node, err);
}

int revoked_from_json(const char *text, size_t len, struct revoked **ret,
		      struct error *err)
{
	AUTO_JSON *o = json_load_text(text, len, KEYS_ANSWER_MAX, err);
	const json_t *list = json_object_get(o, "revoked"), *v;
	AUTO(revoked) r = NULL;
	size_t k;
	int rc;

	if (!o)
		return -EINVAL;
	if (json_is_array(list))
		rc = revoked_new(json_array_size(list), &r, err);
	else
		rc = error_set(err, EINVAL, "'revoked' is not a list");
	if (rc == 0)
		json_array_foreach(list, k, v) rc =
			rc < 0 ? rc : add_revoked(r, v, err);
	if (rc < 0)
		return rc;
	*ret = steal_ptr(&r);
	return 0;
}
