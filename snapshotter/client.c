// SPDX-License-Identifier: Apache-2.0
/* Calls to bootseerd; the connection is in net/control_client.c. */
#include "snapshotter/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "net/control.h"

struct node_client {
	struct control_client *control;
};

/* May the call be repeated?  These methods leave files or mounts behind that would make a
 * second call fail. */
static bool node_is_repeatable(const char *method)
{
	return strcmp(method, "layer.apply") != 0 &&
	       strcmp(method, "layer.unpack") != 0 &&
	       strcmp(method, "image.record") != 0;
}

static int client_open(const struct control_client_config *cfg,
		       struct node_client **ret, struct error *err)
{
	struct node_client *c = calloc(1, sizeof(*c));
	int rc = c ? control_client_open(cfg, &c->control, err)
		   : error_nomem(err);

	if (rc < 0)
		free(c);
	else
		*ret = c;
	return rc;
}

int node_client_open(const char *socket_path, uint32_t timeout_ms,
		     struct control_patience *patience,
		     struct node_client **ret, struct error *err)
{
	const struct control_client_config cfg = {
		.path = socket_path,
		.server = "bootseerd",
		.timeout_ms = timeout_ms,
		.patience = patience,
		.is_repeatable = node_is_repeatable,
	};

	return client_open(&cfg, ret, err);
}

int node_client_open_within(const char *socket_path, uint32_t timeout_ms,
			    uint32_t wait_ms, struct node_client **ret,
			    struct error *err)
{
	const struct control_client_config cfg = {
		.path = socket_path,
		.server = "bootseerd",
		.timeout_ms = timeout_ms,
		.wait_ms = wait_ms,
		.is_repeatable = node_is_repeatable,
	};

	return client_open(&cfg, ret, err);
}

void node_client_close(struct node_client *c)
{
	if (!c)
		return;
	control_client_close(c->control);
	free(c);
}

void node_client_heed(struct node_client *c, const atomic_bool *is_gone)
{
	control_client_heed(c->control, is_gone);
}

static int call_node(struct node_client *c, const char *method, json_t *params,
		     json_t **ret, struct error *err)
{
	return control_client_call(c->control, method, params, ret, err);
}

int node_call(struct node_client *c, const char *method, const char *params,
	      char **ret, struct error *err)
{
	AUTO_JSON *in = NULL;
	AUTO_JSON *out = NULL;
	json_error_t why;
	int rc;

	if (params) {
		in = json_loads(params, 0, &why);
		if (!in)
			return error_set(err, EINVAL, "parameters: %s",
					 why.text);
	}
	rc = call_node(c, method, in, &out, err);
	if (rc < 0)
		return rc;
	*ret = json_dumps(out, JSON_COMPACT);
	return *ret ? 0 : error_nomem(err);
}

/* {"ref": .., "manifest": .. (when known), "plain_http": ..} */
static json_t *query_json(const struct node_image_query *q)
{
	json_t *j = json_pack("{s:s, s:b}", "ref", q->ref, "plain_http",
			      (int)q->plain_http);

	if (j && q->manifest &&
	    json_object_set_new(j, "manifest", json_digest(q->manifest)) < 0) {
		json_decref(j);
		return NULL;
	}
	return j;
}

void node_image_fini(struct node_image *i)
{
	free(i->chain_ids);
	free(i->warning);
	free(i->scope);
	*i = (struct node_image){ .chain_ids = NULL };
}

static int parse_chain_ids(const json_t *list, struct node_image *ret,
			   struct error *err)
{
	size_t n = json_array_size(list), i;
	const char *text;
	int rc;

	ret->chain_ids = calloc(n ? n : 1, sizeof(*ret->chain_ids));
	if (!ret->chain_ids)
		return error_nomem(err);
	for (i = 0; i < n; i++) {
		text = json_string_value(json_array_get(list, i));
		rc = digest_parse(text ? text : "", &ret->chain_ids[i], err);
		if (rc < 0)
			return rc;
	}
	ret->n_chain_ids = n;
	return 0;
}

int node_image_prepare(struct node_client *c, const struct node_image_query *q,
		       struct node_image *ret, struct error *err)
{
	struct node_image image = { .chain_ids = NULL };
	AUTO_JSON *params = query_json(q);
	AUTO_JSON *out = NULL;
	const char *id, *manifest, *warning = NULL, *scope;
	json_t *chain;
	int rc;

	if (!params)
		return error_nomem(err);
	rc = call_node(c, "image.prepare", params, &out, err);
	if (rc < 0)
		return rc;
	if (json_unpack(out, "{s:s, s:s, s:o, s:s, s?s}", "id", &id, "manifest",
			&manifest, "chain_ids", &chain, "scope", &scope,
			"warning", &warning) < 0)
		return error_set(err, EPROTO, "image.prepare: bad reply");
	rc = digest_parse(id, &image.id, err);
	if (rc == 0)
		rc = digest_parse(manifest, &image.manifest, err);
	if (rc == 0)
		rc = parse_chain_ids(chain, &image, err);
	if (rc < 0) {
		node_image_fini(&image);
		return error_wrap(err, rc, "image.prepare: bad reply");
	}
	image.scope = strdup(scope);
	image.warning = warning ? strdup(warning) : NULL;
	if (!image.scope || (warning && !image.warning)) {
		node_image_fini(&image);
		return error_nomem(err);
	}
	*ret = image;
	return 0;
}

int node_image_mount(struct node_client *c, const struct digest *id,
		     const char *user, bool for_start, char **ret_path,
		     char **ret_scope, struct error *err)
{
	AUTO_JSON *params =
		json_pack("{s:o, s:s, s:b}", "id", json_digest(id), "user",
			  user, "for_start", (int)for_start);
	AUTO_FREE char *path_copy = NULL, *scope_copy = NULL;
	AUTO_JSON *out = NULL;
	const char *path, *scope;
	int rc;

	if (!params)
		return error_set(err, EINVAL, "user '%s' is no UTF-8", user);
	rc = call_node(c, "image.mount", params, &out, err);
	if (rc < 0)
		return rc;
	if (json_unpack(out, "{s:s, s:s}", "path", &path, "scope", &scope) < 0)
		return error_set(err, EPROTO, "image.mount: bad reply");
	path_copy = strdup(path);
	scope_copy = strdup(scope);
	if (!path_copy || !scope_copy)
		return error_nomem(err);
	*ret_path = steal_ptr(&path_copy);
	if (ret_scope)
		*ret_scope = steal_ptr(&scope_copy);
	return 0;
}

int node_image_umount(struct node_client *c, const struct digest *id,
		      const char *user, struct error *err)
{
	AUTO_JSON *params =
		json_pack("{s:o*, s:s}", "id", id ? json_digest(id) : NULL,
			  "user", user);
	AUTO_JSON *out = NULL;

	if (!params)
		return error_set(err, EINVAL, "user '%s' is no UTF-8", user);
	return call_node(c, "image.umount", params, &out, err);
}

void node_users_fini(struct node_users *u)
{
	for (size_t i = 0; i < u->n; i++)
		free(u->names[i]);
	free(u->names);
	*u = (struct node_users){ .names = NULL };
}

/* Copy the names that begin with `prefix`, and skip all else in the list. */
static int parse_users(const json_t *list, const char *prefix,
		       struct node_users *ret, struct error *err)
{
	size_t n = json_array_size(list);

	ret->names = calloc(n + 1, sizeof(*ret->names));
	if (!ret->names)
		return error_nomem(err);
	for (size_t i = 0; i < n; i++) {
		const char *text = json_string_value(json_array_get(list, i));

		if (!text || strncmp(text, prefix, strlen(prefix)) != 0)
			continue;
		ret->names[ret->n] = strdup(text);
		if (!ret->names[ret->n])
			return error_nomem(err);
		ret->n++;
	}
	return 0;
}

int node_image_users(struct node_client *c, const char *prefix,
		     struct node_users *ret, struct error *err)
{
	AUTO_JSON *params = json_pack("{s:s}", "prefix", prefix);
	struct node_users users = { .names = NULL };
	AUTO_JSON *out = NULL;
	int rc;

	if (!params)
		return error_set(err, EINVAL, "prefix '%s' is no UTF-8",
				 prefix);
	rc = call_node(c, "image.users", params, &out, err);
	if (rc < 0)
		return rc;
	if (!json_is_array(json_object_get(out, "users")))
		return error_set(err, EPROTO, "image.users: bad reply");
	rc = parse_users(json_object_get(out, "users"), prefix, &users, err);
	if (rc < 0)
		node_users_fini(&users);
	else
		*ret = users;
	return rc;
}

int node_start_begin(struct node_client *c, const struct digest *id,
		     const struct node_start *s, uint32_t *ret_waited_ms,
		     struct error *err)
{
	AUTO_JSON *params =
		json_pack("{s:o, s:s, s:b, s:s*, s:s*, s:s*, s:s*, s:s*}", "id",
			  json_digest(id), "user", s->user, "config_key",
			  (int)!s->workload, "workload", s->workload, "wait",
			  s->wait, "ready_file", s->ready_file, "ready_root",
			  s->ready_root, "bundle", s->bundle);
	AUTO_JSON *out = NULL;
	json_int_t waited = 0;
	int rc;

	if (!params)
		return error_set(err, EINVAL, "start of '%s': no UTF-8",
				 s->user);
	rc = call_node(c, "start.begin", params, &out, err);
	if (rc < 0)
		return rc;
	if (json_unpack(out, "{s:I}", "waited_ms", &waited) < 0)
		return error_set(err, EPROTO, "start.begin: bad reply");
	if (ret_waited_ms)
		*ret_waited_ms = (uint32_t)waited;
	return 0;
}

int node_start_end(struct node_client *c, const char *user, struct error *err)
{
	AUTO_JSON *params = json_pack("{s:s}", "user", user);
	AUTO_JSON *out = NULL;

	if (!params)
		return error_set(err, EINVAL, "user '%s' is no UTF-8", user);
	return call_node(c, "start.end", params, &out, err);
}

int node_login_show(struct node_client *c, const struct node_login *login,
		    struct error *err)
{
	AUTO_JSON *params =
		json_pack("{s:s, s:s, s:s*, s:s*, s:s*}", "image", login->image,
			  "namespace", login->namespace_, "user", login->user,
			  "password", login->password, "identity_token",
			  login->identity_token);
	AUTO_JSON *out = NULL;

	if (!params)
		return error_set(err, EINVAL, "the login is no UTF-8");
	return call_node(c, "login.show", params, &out, err);
}

/* Split "/a:/b" into ["/a", "/b"]. */
static json_t *split_json(const char *paths)
{
	json_t *list = json_array();

	while (list && *paths) {
		size_t n = strcspn(paths, ":");

		if (json_array_append_new(list, json_stringn(paths, n)) < 0) {
			json_decref(list);
			return NULL;
		}
		paths += n + (paths[n] == ':');
	}
	return list;
}

int node_layer_apply(struct node_client *c, const struct node_image_query *q,
		     size_t layer, const struct digest *chain_id,
		     const char *dir, const char *lower, struct error *err)
{
	AUTO_JSON *params = query_json(q);
	AUTO_JSON *out = NULL;

	if (!params ||
	    json_object_set_new(params, "layer",
				json_integer((json_int_t)layer)) < 0 ||
	    json_object_set_new(params, "dir", json_string(dir)) < 0 ||
	    json_object_set_new(params, "lower", split_json(lower)) < 0)
		return error_set(err, EINVAL, "'%s' or '%s' is no UTF-8", dir,
				 lower);
	if (chain_id &&
	    json_object_set_new(params, "chain_id", json_digest(chain_id)) < 0)
		return error_nomem(err);
	return call_node(c, "layer.apply", params, &out, err);
}

int node_layer_unpack(struct node_client *c, const struct node_layer *l,
		      struct node_layer_content *ret, struct error *err)
{
	AUTO_JSON *params =
		json_pack("{s:o, s:s, s:I, s:s, s:o, s:b}", "digest",
			  json_digest(&l->digest), "media_type", l->media_type,
			  "size", (json_int_t)l->size, "dir", l->dir, "lower",
			  split_json(l->lower), "sync", (int)l->sync);
	AUTO_JSON *out = NULL;
	json_int_t bytes = 0;
	const char *diff_id;
	int rc;

	if (!params)
		return error_set(err, EINVAL, "'%s' or '%s' is no UTF-8",
				 l->dir, l->lower);
	rc = call_node(c, "layer.unpack", params, &out, err);
	if (rc < 0)
		return rc;
	if (json_unpack(out, "{s:s, s:I}", "diff_id", &diff_id, "bytes",
			&bytes) < 0 ||
	    bytes < 0 || digest_parse(diff_id, &ret->diff_id, NULL) < 0)
		return error_set(err, EPROTO, "layer.unpack: bad reply");
	ret->bytes = (uint64_t)bytes;
	return 0;
}
