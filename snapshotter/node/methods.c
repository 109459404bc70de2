// SPDX-License-Identifier: Apache-2.0
/* The methods of the control socket (docs/formats/control.md), one function
 * each: parameters in, result or error out. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "common/log.h"
#include "snapshotter/node/node.h"
#include "snapshotter/node/peers.h"
#include "snapshotter/node/prefetch.h"
#include "snapshotter/node/traces.h"

#define PREFETCH_WAIT_MS_MAX 60000

static json_t *digest_json(const struct digest *d)
{
	char text[DIGEST_STR_MAX];

	digest_format(d, text);
	return json_string(text);
}

static json_t *checked(json_t *result, struct error *err)
{
	if (!result)
		error_nomem(err);
	return result;
}

int params_unpack(json_t *params, struct error *err, const char *fmt, ...)
{
	json_error_t why;
	va_list ap;
	int rc;

	va_start(ap, fmt);
	rc = json_vunpack_ex(params, &why, JSON_STRICT, fmt, ap);
	va_end(ap);
	return rc < 0 ? error_set(err, EINVAL, "parameters: %s", why.text) : 0;
}

struct image *params_image(struct node *n, const char *id, struct error *err)
{
	struct digest d;
	struct image *i;

	if (digest_parse(id, &d, err) < 0)
		return NULL;
	i = images_get(n->images, &d);
	if (!i)
		error_set(err, ENOENT, "no image %s on this node: prepare it",
			  id);
	return i;
}

int params_user(const char *user, struct error *err)
{
	if (!user[0] || strlen(user) > STATE_STRING_MAX)
		return error_set(err, EINVAL,
				 "parameters: user of 1 to %d bytes wanted",
				 STATE_STRING_MAX);
	return 0;
}

/* ------------------------------------------------------------------ images --- */

static int parse_query(const char *ref, const char *manifest, int plain_http,
		       struct digest *d, struct image_query *ret,
		       struct error *err)
{
	*ret = (struct image_query){ .ref = ref, .plain_http = plain_http };
	if (!manifest)
		return 0;
	ret->manifest = d;
	return digest_parse(manifest, d, err);
}

static json_t *chain_json(const struct artifact *a)
{
	json_t *list = json_array();
	size_t i;

	for (i = 0; list && i < a->n_chain_ids; i++) {
		if (json_array_append_new(list, digest_json(&a->chain_ids[i])) <
		    0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static json_t *do_prepare(struct node *n, json_t *params, struct error *err)
{
	static const char *const sources[] = {
		[PREPARE_NODE] = "node",
		[PREPARE_REGISTRY] = "registry",
		[PREPARE_STALE] = "stale",
	};
	const char *ref, *manifest = NULL;
	struct image_query q;
	struct prepared p;
	struct digest d;
	json_t *result;
	int plain = 0;

	if (params_unpack(params, err, "{s:s, s?s, s?b}", "ref", &ref,
			  "manifest", &manifest, "plain_http", &plain) < 0 ||
	    parse_query(ref, manifest, plain, &d, &q, err) < 0 ||
	    node_prepare(n, &q, &p, err) < 0)
		return NULL;
	result = json_pack("{s:o, s:o, s:o, s:s}", "id",
			   digest_json(&p.image->id), "manifest",
			   digest_json(&p.manifest), "chain_ids",
			   chain_json(&p.image->artifact), "source",
			   sources[p.source]);
	if (result && p.source == PREPARE_STALE &&
	    json_object_set_new(result, "warning", json_string(p.warning.msg)) <
		    0) {
		/* The text quotes bytes that are not UTF-8. */
		(void)json_object_set_new(result, "warning",
					  json_string("registry not "
						      "reachable"));
	}
	/* A container may follow: what it reads can be known before it comes. */
	traces_prepare(n->traces, p.image, p.early);
	images_put(p.image);
	return checked(result, err);
}

static json_t *do_mount(struct node *n, json_t *params, struct error *err)
{
	const char *id, *user;
	json_t *result = NULL;
	struct image *i;
	int for_start = 0, rc;
	bool complete;

	if (params_unpack(params, err, "{s:s, s:s, s?b}", "id", &id, "user",
			  &user, "for_start", &for_start) < 0 ||
	    params_user(user, err) < 0)
		return NULL;
	i = params_image(n, id, err);
	if (!i)
		return NULL;
	rc = node_mount(n, i, user, for_start, err);
	if (rc == 0) {
		images_lock(n->images);
		complete = i->mounted && mounted_is_complete(i->mounted);
		images_unlock(n->images);
		result = checked(json_pack("{s:s, s:s}", "path", i->mountpoint,
					   "mode",
					   complete ? "complete" : "lazy"),
				 err);
	}
	images_put(i);
	return result;
}

static int umount_one(struct node *n, struct image *i, const char *user,
		      int *released, struct error *err)
{
	bool was;
	int rc = node_umount(n, i, user, &was, err);

	*released += rc == 0 && was;
	return rc;
}

/* Every image that the user has. */
static int umount_all(struct node *n, const char *user, int *released,
		      struct error *err)
{
	struct image **list;
	size_t len, k;
	bool has;
	int rc;

	rc = images_list(n->images, &list, &len, err);
	if (rc < 0)
		return rc;
	for (k = 0; rc == 0 && k < len; k++) {
		images_lock(n->images);
		has = names_has(&list[k]->state.users, user);
		images_unlock(n->images);
		if (has)
			rc = umount_one(n, list[k], user, released, err);
	}
	images_list_free(list, len);
	return rc;
}

static json_t *do_umount(struct node *n, json_t *params, struct error *err)
{
	const char *id = NULL, *user;
	struct image *i;
	struct digest d;
	int released = 0, rc;
	bool recorded;

	if (params_unpack(params, err, "{s?s, s:s}", "id", &id, "user", &user) <
		    0 ||
	    params_user(user, err) < 0 || (id && digest_parse(id, &d, err) < 0))
		return NULL;
	rc = node_record_end(n, user, &recorded, err);
	released += recorded;
	if (rc < 0)
		return NULL;
	if (id) {
		i = images_get(n->images, &d);
		rc = i ? umount_one(n, i, user, &released, err) : 0;
		images_put(i);
	} else {
		rc = umount_all(n, user, &released, err);
	}
	if (rc < 0)
		return NULL;
	return checked(json_pack("{s:i}", "released", released), err);
}

static int prefetch_what(struct node *n, struct image *i, const char *what,
			 struct error *err)
{
	bool all = strcmp(what, "all") == 0;

	if (strcmp(what, "stop") == 0)
		return node_prefetch_stop(n, i, err);
	if (!all && strcmp(what, "hot") != 0)
		return error_set(err, EINVAL,
				 "parameters: what is 'hot', 'all' or 'stop'");
	/* The hot set of the nearest trace, when it can be had; without one, of
	 * an earlier start. */
	traces_await_hot(n->traces, i);
	return node_prefetch_now(n, i, all, err);
}

static json_t *do_prefetch(struct node *n, json_t *params, struct error *err)
{
	const char *id, *what = NULL;
	json_int_t wait_ms = 0;
	json_t *result = NULL;
	struct image *i;
	int rc = 0;

	if (params_unpack(params, err, "{s:s, s?s, s?I}", "id", &id, "what",
			  &what, "wait_ms", &wait_ms) < 0)
		return NULL;
	if (wait_ms < 0 || wait_ms > PREFETCH_WAIT_MS_MAX) {
		error_set(err, EINVAL, "parameters: wait_ms is 0 to %d",
			  PREFETCH_WAIT_MS_MAX);
		return NULL;
	}
	i = params_image(n, id, err);
	if (!i)
		return NULL;
	if (what)
		rc = prefetch_what(n, i, what, err);
	if (rc == 0) {
		node_prefetch_wait_end(n, i, wait_ms * 1000000);
		result = checked(node_prefetch_json(n, i), err);
	}
	images_put(i);
	return result;
}

static json_t *do_layer(struct node *n, json_t *params, struct error *err)
{
	const char *ref, *manifest = NULL, *dir;
	struct image_query q;
	json_int_t layer;
	struct digest d;
	uint64_t bytes = 0;
	int plain = 0;

	if (params_unpack(params, err, "{s:s, s?s, s?b, s:I, s:s}", "ref", &ref,
			  "manifest", &manifest, "plain_http", &plain, "layer",
			  &layer, "dir", &dir) < 0 ||
	    parse_query(ref, manifest, plain, &d, &q, err) < 0)
		return NULL;
	if (layer < 0 || dir[0] != '/') {
		error_set(err, EINVAL,
			  "parameters: layer counts from 0, dir is "
			  "absolute");
		return NULL;
	}
	if (node_layer_apply(n, &q, (size_t)layer, dir, &bytes, err) < 0)
		return NULL;
	atomic_fetch_add(&n->events.layers_applied, 1);
	return checked(json_pack("{s:I}", "bytes", (json_int_t)bytes), err);
}

/* -------------------------------------------------------------------- node --- */

static json_t *do_status(struct node *n, json_t *params, struct error *err)
{

	if (params_unpack(params, err, "{}") < 0)
		return NULL;
	return checked(node_status(n), err);
}

static json_t *do_p2p_status(struct node *n, json_t *params, struct error *err)
{
	if (params_unpack(params, err, "{}") < 0)
		return NULL;
	return checked(peers_json(n), err);
}

static json_t *do_doctor(struct node *n, json_t *params, struct error *err)
{
	const char *registry = NULL;

	if (params_unpack(params, err, "{s?s}", "registry", &registry) < 0)
		return NULL;
	return checked(node_doctor(n, registry), err);
}

static json_t *do_gc(struct node *n, json_t *params, struct error *err)
{
	json_int_t cache_bytes = -1;
	struct gc_result r;
	int images = 0;

	if (params_unpack(params, err, "{s?b, s?I}", "images", &images,
			  "cache_bytes", &cache_bytes) < 0 ||
	    node_gc(n, images, cache_bytes >= 0, (uint64_t)cache_bytes, &r,
		    err) < 0)
		return NULL;
	return checked(json_pack("{s:I, s:I}", "images", (json_int_t)r.images,
				 "freed_bytes", (json_int_t)r.freed_bytes),
		       err);
}

static const struct method {
	const char *name;
	method_fn *fn;
} methods[] = {
	{ "image.prepare", do_prepare },     { "image.mount", do_mount },
	{ "image.umount", do_umount },       { "image.record", method_record },
	{ "image.explain", method_explain }, { "start.begin", method_begin },
	{ "start.ready", method_ready },     { "start.end", method_end },
	{ "layer.apply", do_layer },         { "node.status", do_status },
	{ "node.doctor", do_doctor },        { "node.gc", do_gc },
	{ "image.prefetch", do_prefetch },   { "p2p.status", do_p2p_status },
};

static json_t *dispatch(struct node *n, const struct control_request *r,
			struct error *err)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(methods); i++) {
		if (strcmp(methods[i].name, r->method) == 0)
			return methods[i].fn(n, r->params, err);
	}
	error_set(err, ENOSYS, "no method '%.64s'", r->method);
	return NULL;
}

int node_answer(struct node *n, const char *line, size_t len, struct buf *reply)
{
	struct control_request r;
	struct error err = ERROR_INIT;
	AUTO_JSON *result = NULL;
	int rc;

	atomic_fetch_add(&n->events.calls, 1);
	rc = control_request_parse(line, len, &r, &err);
	if (rc == 0) {
		result = dispatch(n, &r, &err);
		/* That an image has no artifact is an answer, not a fault. */
		if (!result)
			log_line(err.code == ENOENT ? LOG_LEVEL_INFO
						    : LOG_LEVEL_WARNING,
				 "control", "failed method=%s reason=\"%s\"",
				 r.method, err.msg);
		control_request_fini(&r);
	}
	if (result) {
		rc = control_reply_format(result, reply, &err);
		if (rc == 0)
			return 0;
	}
	atomic_fetch_add(&n->events.calls_failed, 1);
	return control_error_format(&err, reply, NULL);
}
