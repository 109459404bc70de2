// SPDX-License-Identifier: Apache-2.0
/* The methods of the control socket (docs/formats/control.md), one function
 * each: parameters in, result or error out. */
#include <errno.h>
#include <string.h>

#include "common/json.h"
#include "common/log.h"
#include "common/registry_host.h"
#include "net/control_server.h"
#include "snapshotter/node/control/control.h"
#include "snapshotter/node/control/disk.h"
#include "snapshotter/node/control/environment.h"
#include "snapshotter/node/control/gc.h"
#include "snapshotter/node/control/layer.h"
#include "snapshotter/node/control/methods.h"
#include "snapshotter/node/control/node.h"
#include "snapshotter/node/control/prepare.h"
#include "snapshotter/node/control/status.h"
#include "snapshotter/node/peers/image_swarm.h"
#include "snapshotter/node/starts/mount.h"
#include "snapshotter/node/starts/prefetch.h"
#include "snapshotter/node/starts/record.h"
#include "snapshotter/node/traces/trace_lookup.h"
#include "snapshotter/node/trust/admission.h"

#define PREFETCH_WAIT_MS_MAX 60000

static json_t *checked_json(json_t *result, struct error *err)
{
	if (!result)
		error_nomem(err);
	return result;
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
		if (json_array_append_new(list, json_digest(&a->chain_ids[i])) <
		    0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static json_t *do_prepare(struct node *n, json_t *params,
			  struct remote_call *call, struct error *err)
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
	    parse_query(ref, manifest, plain, &d, &q, err) < 0)
		return NULL;
	q.call = call;
	if (node_prepare(n, &q, &p, err) < 0)
		return NULL;
	result = json_pack("{s:o, s:o, s:o, s:s, s:s}", "id",
			   json_digest(&p.image->id), "manifest",
			   json_digest(&p.manifest), "chain_ids",
			   chain_json(&p.image->artifact), "source",
			   sources[p.source], "scope", p.scope);
	if (result && p.source == PREPARE_STALE &&
	    json_object_set_new(result, "warning", json_string(p.warning.msg)) <
		    0) {
		/* The warning cannot be JSON: it quotes bytes that are not UTF-8. */
		(void)json_object_set_new(result, "warning",
					  json_string("registry not "
						      "reachable"));
	}
	/* A container may follow: look for its trace now, before its start. */
	trace_lookup_prepare(n->traces, p.image, p.early);
	images_put(p.image);
	return checked_json(result, err);
}

static json_t *do_mount(struct node *n, json_t *params,
			struct remote_call *call, struct error *err)
{
	const char *id, *user, *scope;
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
	rc = admission_recheck(n->admission, i, NULL, &scope, err);
	if (rc == 0)
		rc = mounts_mount(n->mounts,
				  &(struct mount_request){
					  .image = i,
					  .user = user,
					  .why = for_start ? MOUNT_START
							   : MOUNT_USE,
					  .call = call },
				  &complete, err);
	if (rc == 0)
		result = checked_json(json_pack("{s:s, s:s, s:s}", "path",
						i->mountpoint, "mode",
						complete ? "complete" : "lazy",
						"scope", scope),
				      err);
	images_put(i);
	return result;
}

static int umount_one(struct node *n, struct image *i, const char *user,
		      struct remote_call *call, int *released,
		      struct error *err)
{
	const struct mount_request r = { .image = i,
					 .user = user,
					 .call = call };
	bool was;
	int rc = mounts_umount(n->mounts, &r, &was, err);

	*released += rc == 0 && was;
	return rc;
}

/* Unmount every image that the user has. */
static int umount_all(struct node *n, const char *user,
		      struct remote_call *call, int *released,
		      struct error *err)
{
	struct image **list;
	size_t len, k;
	int rc = images_list(n->images, &list, &len, err);

	if (rc < 0)
		return rc;
	/* With no call this thread must not wait: do all or nothing, so that the thread which
	 * takes over counts all images. */
	for (k = 0; rc == 0 && k < len && !call; k++) {
		if (image_has_user(list[k], user) &&
		    keyed_lock_is_taken(n->gate, &list[k]->id))
			rc = error_set(err, EINPROGRESS, "others work on it");
	}
	for (k = 0; rc == 0 && k < len; k++) {
		if (image_has_user(list[k], user))
			rc = umount_one(n, list[k], user, call, released, err);
	}
	images_list_free(list, len);
	return rc;
}

static json_t *do_umount(struct node *n, json_t *params,
			 struct remote_call *call, struct error *err)
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
	/* No deadline: the mount may have to wait for another call on the image that waits for
	 * a slow registry. */
	if (call)
		remote_call_no_deadline(call);
	if (id) {
		i = images_get(n->images, &d);
		rc = i ? umount_one(n, i, user, call, &released, err) : 0;
		images_put(i);
	} else {
		rc = umount_all(n, user, call, &released, err);
	}
	if (rc == 0)
		rc = recordings_end(n->recordings, user, &recorded, err);
	released += rc == 0 && recorded;
	if (rc < 0)
		return NULL;
	return checked_json(json_pack("{s:i}", "released", released), err);
}

static json_t *do_users(struct node *n, json_t *params, struct error *err)
{
	const char *prefix;

	if (params_unpack(params, err, "{s:s}", "prefix", &prefix) < 0)
		return NULL;
	return checked_json(node_users(n, prefix), err);
}

static int begin_or_stop_prefetch(struct node *n, struct image *i,
				  const char *what, struct remote_call *call,
				  struct error *err)
{
	bool all = strcmp(what, "all") == 0;

	if (strcmp(what, "stop") == 0) {
		node_prefetch_stop(i);
		return 0;
	}
	if (!all && strcmp(what, "hot") != 0)
		return error_set(err, EINVAL,
				 "parameters: what is 'hot', 'all' or 'stop'");
	/* Wait for the hot set of the nearest trace, if it can be had; otherwise the hot set of
	 * an earlier start is prefetched. */
	trace_lookup_await_hot(n->traces, i);
	return node_prefetch(n->prefetches, i,
			     all ? PREFETCH_ON_ORDER_ALL
				 : PREFETCH_ON_ORDER_HOT,
			     NULL, call, err);
}

static json_t *do_prefetch(struct node *n, json_t *params,
			   struct remote_call *call, struct error *err)
{
	const char *id, *what = NULL;
	json_int_t wait_ms = 0;
	json_t *result = NULL;
	struct image *i;
	int rc = 0;

	if (method_waits(call, err) < 0)
		return NULL;
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
		rc = begin_or_stop_prefetch(n, i, what, call, err);
	/* No deadline for the call: `wait_ms` limits the wait. */
	remote_call_no_deadline(call);
	if (rc == 0)
		rc = node_prefetch_wait_end(i, wait_ms * 1000000, &call->pace,
					    err);
	if (rc == 0)
		result = checked_json(node_prefetch_json(i), err);
	images_put(i);
	return result;
}

/* Parse "lower", a list of absolute folders; `ret->lower` is to be freed then. */
static int parse_lower(const json_t *list, struct layer_place *ret,
		       struct error *err)
{
	size_t n = json_array_size(list);

	if (!list)
		return 0;
	if (!json_is_array(list))
		return error_set(err, EINVAL, "parameters: lower is no list");
	ret->lower = calloc(n + 1, sizeof(*ret->lower));
	if (!ret->lower)
		return error_nomem(err);
	for (; ret->n_lower < n; ret->n_lower++) {
		const char *dir =
			json_string_value(json_array_get(list, ret->n_lower));

		if (!dir || dir[0] != '/') {
			free(ret->lower);
			ret->lower = NULL;
			return error_set(err, EINVAL,
					 "parameters: lower has absolute "
					 "folders");
		}
		ret->lower[ret->n_lower] = dir;
	}
	return 0;
}

static json_t *do_layer(struct node *n, json_t *params,
			struct remote_call *call, struct error *err)
{
	const char *ref, *manifest = NULL, *chain = NULL;
	struct layer_place place = { .dir = "" };
	json_t *lower = NULL;
	struct image_query q;
	json_int_t layer;
	struct digest d, chain_id;
	uint64_t bytes = 0;
	int plain = 0, rc;

	if (params_unpack(params, err, "{s:s, s?s, s?b, s:I, s:s, s?o, s?s}",
			  "ref", &ref, "manifest", &manifest, "plain_http",
			  &plain, "layer", &layer, "dir", &place.dir, "lower",
			  &lower, "chain_id", &chain) < 0 ||
	    (chain && digest_parse(chain, &chain_id, err) < 0) ||
	    parse_query(ref, manifest, plain, &d, &q, err) < 0 ||
	    parse_lower(lower, &place, err) < 0)
		return NULL;
	if (layer < 0 || place.dir[0] != '/') {
		free(place.lower);
		error_set(err, EINVAL,
			  "parameters: layer counts from 0, dir is "
			  "absolute");
		return NULL;
	}
	q.call = call;
	place.chain_id = chain ? &chain_id : NULL;
	rc = call ? layer_apply(n, &q, (size_t)layer, &place, &bytes, err)
		  : error_set(err, EINPROGRESS, "the registry is needed");
	free(place.lower);
	if (rc < 0)
		return NULL;
	atomic_fetch_add(&n->events.layers_applied, 1);
	return checked_json(json_pack("{s:I}", "bytes", (json_int_t)bytes),
			    err);
}

static json_t *do_unpack(struct node *n, json_t *params,
			 struct remote_call *call, struct error *err)
{
	struct layer_place place = { .dir = "" };
	struct oci_descriptor d = { .size = 0 };
	const char *digest, *media_type;
	struct layer_content content;
	json_t *lower = NULL;
	json_int_t size;
	int sync, rc;

	if (method_waits(call, err) < 0 ||
	    params_unpack(params, err, "{s:s, s:s, s:I, s:s, s:o, s:b}",
			  "digest", &digest, "media_type", &media_type, "size",
			  &size, "dir", &place.dir, "lower", &lower, "sync",
			  &sync) < 0 ||
	    digest_parse(digest, &d.digest, err) < 0 ||
	    parse_lower(lower, &place, err) < 0)
		return NULL;
	d.size = (uint64_t)size;
	(void)snprintf(d.media_type, sizeof(d.media_type), "%s", media_type);
	/* No deadline: the layer is on this node, so no registry is waited for. */
	remote_call_no_deadline(call);
	rc = size < 0 || place.dir[0] != '/'
		     ? error_set(err, EINVAL,
				 "parameters: size counts from 0, dir is "
				 "absolute")
		     : layer_unpack(n, &d, &place, sync, &call->pace, &content,
				    err);
	free(place.lower);
	if (rc < 0)
		return NULL;
	atomic_fetch_add(&n->events.layers_applied, 1);
	return checked_json(json_pack("{s:o, s:I}", "diff_id",
				      json_digest(&content.diff_id), "bytes",
				      (json_int_t)content.bytes),
			    err);
}

/* -------------------------------------------------------------------- node --- */

static json_t *do_status(struct node *n, json_t *params, struct error *err)
{

	if (params_unpack(params, err, "{}") < 0)
		return NULL;
	return checked_json(node_status(n), err);
}

static json_t *do_p2p_status(struct node *n, json_t *params, struct error *err)
{
	if (params_unpack(params, err, "{}") < 0)
		return NULL;
	return checked_json(image_swarms_json(n->peers), err);
}

static json_t *do_doctor(struct node *n, json_t *params,
			 struct remote_call *call, struct error *err)
{
	const char *registry = NULL;

	if (params_unpack(params, err, "{s?s}", "registry", &registry) < 0)
		return NULL;
	if (registry && !call) {
		error_set(err, EINPROGRESS, "the registry is needed");
		return NULL;
	}
	return checked_json(node_doctor(n, registry, call), err);
}

static json_t *do_gc(struct node *n, json_t *params, struct error *err)
{
	json_int_t cache_bytes = -1;
	struct gc_result r;
	int images = 0, rc;

	if (params_unpack(params, err, "{s?b, s?I}", "images", &images,
			  "cache_bytes", &cache_bytes) < 0)
		return NULL;
	rc = gc_run(&n->gc, images, cache_bytes >= 0, (uint64_t)cache_bytes, &r,
		    err);
	if (images)
		disk_refresh(n->disk);
	if (rc < 0)
		return NULL;
	return checked_json(json_pack("{s:I, s:I}", "images",
				      (json_int_t)r.images, "freed_bytes",
				      (json_int_t)r.freed_bytes),
			    err);
}

static const struct method {
	const char *name;
	enum control_kind kind;
	method_fn *fn;
	/* used instead of `fn`: tried on a thread that must not wait, then again on a thread of
	 * `kind` */
	remote_method_fn *remote;
	bool goes_on; /* the work goes on when the caller leaves */
} methods[] = {
	{ "image.prepare", CONTROL_REMOTE, NULL, do_prepare, false },
	{ "image.mount", CONTROL_WAITS, NULL, do_mount, false },
	{ "image.umount", CONTROL_WAITS, NULL, do_umount, true },
	{ "image.users", CONTROL_QUICK, do_users, NULL, false },
	{ "image.record", CONTROL_WAITS, NULL, method_record, false },
	{ "image.explain", CONTROL_QUICK, method_explain, NULL, false },
	{ "image.prefetch", CONTROL_WAITS, NULL, do_prefetch, false },
	{ "environment.mount", CONTROL_WAITS, NULL, method_env_mount, false },
	{ "environment.open", CONTROL_WAITS, NULL, method_env_open, false },
	{ "environment.read", CONTROL_WAITS, NULL, method_env_read, false },
	{ "environment.umount", CONTROL_WAITS, NULL, method_env_umount, true },
	{ "start.begin", CONTROL_WAITS, NULL, method_begin, false },
	{ "start.ready", CONTROL_QUICK, method_ready, NULL, false },
	{ "start.end", CONTROL_QUICK, method_end, NULL, false },
	{ "login.show", CONTROL_QUICK, method_login, NULL, false },
	{ "login.secrets", CONTROL_QUICK, method_secrets, NULL, false },
	{ "layer.apply", CONTROL_REMOTE, NULL, do_layer, false },
	{ "layer.unpack", CONTROL_WAITS, NULL, do_unpack, false },
	{ "node.status", CONTROL_QUICK, do_status, NULL, false },
	{ "node.doctor", CONTROL_REMOTE, NULL, do_doctor, false },
	{ "node.doctor_report", CONTROL_REMOTE, NULL, method_doctor_report,
	  false },
	{ "node.gc", CONTROL_WAITS, do_gc, NULL, false },
	{ "p2p.status", CONTROL_QUICK, do_p2p_status, NULL, false },
};

static const struct method *find_method(const char *name, struct error *err)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(methods); i++) {
		if (strcmp(methods[i].name, name) == 0)
			return &methods[i];
	}
	error_set(err, ENOSYS, "no method '%.64s'", name);
	return NULL;
}

/* The server in a store's URL; a registry's host is returned unchanged. */
static const char *store_server(const char *text)
{
	const char *at = text ? strstr(text, "://") : NULL;

	return at ? at + 3 : text;
}

/* Name the call's lane: the host that it is about, without its port. */
static void name_lane(struct node *n, const json_t *params,
		      char lane[CONTROL_LANE_MAX])
{
	const char *text = json_string_value(json_object_get(params, "ref"));
	const char *id = json_string_value(json_object_get(params, "id"));
	const char *name = json_string_value(json_object_get(params, "name"));
	struct image *i = id ? params_image(n, id, NULL) : NULL;

	_Static_assert(CONTROL_LANE_MAX >= REGISTRY_HOST_MAX, "a host fits");
	if (!text)
		text = json_string_value(json_object_get(params, "registry"));
	if (!text)
		text = store_server(
			json_string_value(json_object_get(params, "store")));
	/* environment.read has no store, only an environment's name: take its image's host. */
	if (!i && !text && name)
		(void)!environment_image(&n->environments, name, &i, NULL);
	if (i)
		text = store_server(i->state.host);
	registry_host_name(text ? text : "", lane);
	images_put(i);
}

static json_t *do_remote(struct node *n, const struct method *m,
			 struct control_call *call, json_t *params,
			 struct error *err)
{
	struct remote_call remote;

	if (call->kind == CONTROL_QUICK)
		return m->remote(n, params, NULL, err);
	/* The deadline counts from the arrival of the call, not from when a thread took it. */
	remote_call_init(&remote, &n->is_ending,
			 m->goes_on ? NULL : &call->is_gone, call->arrived_ns,
			 n->cfg->prepare_timeout);
	remote.is_local = call->kind != CONTROL_REMOTE;
	return m->remote(n, params, &remote, err);
}

/* Run the call's method.  NULL with call->kind changed: a thread of that kind has to run it. */
static json_t *dispatch_call(struct node *n, struct control_call *call,
			     const struct control_request *r, struct error *err)
{
	const struct method *m = find_method(r->method, err);
	json_t *result;

	if (!m)
		return NULL;
	if (m->remote) {
		result = do_remote(n, m, call, r->params, err);
		if (!result && err->code == EINPROGRESS &&
		    call->kind != CONTROL_REMOTE) {
			call->kind = call->kind == CONTROL_QUICK
					     ? m->kind
					     : CONTROL_REMOTE;
			call->goes_on = m->goes_on;
			if (call->kind == CONTROL_REMOTE)
				name_lane(n, r->params, call->lane);
		}
		return result;
	}
	if (call->kind != m->kind) {
		call->kind = m->kind;
		return NULL;
	}
	return m->fn(n, r->params, err);
}

/* Log a failed call: as information if the image has no artifact or the caller left, otherwise
 * as a warning. */
static void log_failure(const char *method, const struct error *err)
{
	bool is_answer =
		err->code == ENOENT && strcmp(method, "image.prepare") == 0;
	bool is_fault = !is_answer && err->code != ECANCELED;

	/* admission_note() has logged the refusal. */
	if (err->code == ADMISSION_REFUSED)
		return;
	log_line(is_fault ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO, "control",
		 "failed method=%s reason=\"%s\"", method, err->msg);
}

static int figures_text(void *node, struct buf *ret)
{
	return node_metrics(node, ret);
}

int node_answer(struct node *n, struct control_call *call, struct buf *reply)
{
	const enum control_kind kind = call->kind;
	struct control_request r;
	struct error err = ERROR_INIT;
	AUTO_JSON *result = NULL;
	int rc;

	if (strncmp(call->path, "/v1/", 4) != 0)
		return control_figures(call, figures_text, n, reply);
	rc = control_call_parse(call->path, call->body, call->len, &r, &err);
	if (rc == 0) {
		result = dispatch_call(n, call, &r, &err);
		if (call->kind == kind && !result)
			log_failure(r.method, &err);
		control_request_fini(&r);
	}
	if (call->kind != kind)
		return CONTROL_LATER;
	atomic_fetch_add(&n->events.calls, 1);
	if (result && control_reply_format(result, reply, &err) == 0)
		return HTTPD_OK;
	atomic_fetch_add(&n->events.calls_failed, 1);
	return control_fail(&err, reply);
}
