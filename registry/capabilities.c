// SPDX-License-Identifier: Apache-2.0
/* /v1/capabilities: docs/formats/registry-api.md. */
#include "registry/capabilities.h"

#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "common/base64.h"
#include "common/clock.h"
#include "common/fs.h"
#include "net/http.h"
#include "p2p/rights/capability.h"
#include "registry/call.h"
#include "registry/patience.h"
#include "registry/routes.h"
#include "registry/schema.h"

#define CONNECT_MS 2000
#define DEADLINE_NS INT64_C(5000000000)
#define AUTHORIZATION_MAX 8192u
#define KEYS_MAX (64u << 10) /* bytes of PEM */
/* clock difference allowed between a node and this service */
#define CLOCKS_APART_S 60

struct issuer {
	const struct registry_config *cfg;
	struct http *http;
	struct patience *patience; /* one for each of cfg->registries */
	pthread_mutex_t lock;      /* protects `signer` and `keys` */
	/* NULL: no key, capabilities are not signed */
	struct capability_signer *signer;
	/* PEM: all public keys that nodes shall trust */
	struct buf keys;
	atomic_uint_fast64_t granted, denied, failed;
};

/* --------------------------------------------------------------------- the keys --- */

static int load_keys(const struct registry_config *cfg,
		     struct capability_signer **ret, struct buf *keys,
		     struct error *err)
{
	AUTO(capability_signer) s = NULL;
	AUTO(capability_keys) k = NULL;
	int rc = capability_signer_load(cfg->capability_key, &s, err);

	if (rc == 0)
		rc = capability_signer_public(s, keys, err);
	if (rc == 0 && cfg->capability_old_keys)
		rc = fs_read_file(cfg->capability_old_keys, KEYS_MAX, keys,
				  err);
	/* Nodes get all of these keys, so check that they can be parsed. */
	if (rc == 0)
		rc = capability_keys_parse(keys->data, keys->len, &k, err);
	if (rc < 0)
		return error_wrap(err, rc, "capability keys");
	*ret = steal_ptr(&s);
	return 0;
}

int issuer_reload(struct issuer *i, struct error *err)
{
	AUTO(capability_signer) s = NULL;
	AUTO_BUF keys = BUF_INIT;
	struct capability_signer *old_signer;
	struct buf old_keys;
	int rc = 0;

	if (i->cfg->capability_key)
		rc = load_keys(i->cfg, &s, &keys, err);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&i->lock);
	old_signer = i->signer;
	old_keys = i->keys;
	i->signer = s;
	i->keys = keys;
	pthread_mutex_unlock(&i->lock);
	s = old_signer;
	keys = old_keys;
	return 0;
}

/* Options that error messages of calls to a registry suggest. */
static const struct http_cures cures = {
	.plain = "say registry-plain-http",
	.tls = "leave out registry-plain-http",
	.ca = "name the authority's file: registry-ca",
	.ca_file = "registry-ca",
	.proxy = HTTP_CURE_PROXY,
};

static size_t count_registries(const struct registry_config *cfg)
{
	size_t n = 0;

	while (cfg->registries && cfg->registries[n])
		n++;
	return n;
}

int issuer_new(const struct registry_config *cfg, struct issuer **ret,
	       struct error *err)
{
	const struct http_config http = {
		.ca_file = cfg->registry_ca,
		.allow_plain = cfg->registry_plain_http,
		.cures = &cures,
		.connect_timeout_ms = CONNECT_MS,
		.stall_timeout_ms = CONNECT_MS,
		.max_idle = (unsigned int)cfg->threads,
	};
	struct issuer *i = calloc(1, sizeof(*i));
	int rc;

	if (!i)
		return error_nomem(err);
	i->cfg = cfg;
	(void)pthread_mutex_init(&i->lock, NULL);
	i->patience = calloc(count_registries(cfg) + 1, sizeof(*i->patience));
	rc = i->patience ? http_new(&http, &i->http, err) : error_nomem(err);
	if (rc == 0)
		rc = issuer_reload(i, err);
	if (rc < 0) {
		issuer_free(i);
		return rc;
	}
	*ret = i;
	return 0;
}

void issuer_free(struct issuer *i)
{
	if (!i)
		return;
	http_free(i->http);
	free(i->patience);
	capability_signer_free(i->signer);
	buf_fini(&i->keys);
	(void)pthread_mutex_destroy(&i->lock);
	free(i);
}

void issuer_get_stats(const struct issuer *i, struct issuer_stats *ret)
{
	*ret = (struct issuer_stats){
		.granted_total = atomic_load(&i->granted),
		.denied_total = atomic_load(&i->denied),
		.failed_total = atomic_load(&i->failed),
	};
}

static int refuse_without_key(struct call *c, struct error *err)
{
	return call_fail(c, HTTPD_NOT_IMPLEMENTED, NULL, err,
			 "this service has no --capability-key");
}

/* ------------------------------------------------------------------ the request --- */

struct wish {
	json_t *o;
	const char *image, *repo, *node, *authorization; /* "": not given */
	const char *pulled; /* HOST/REPOSITORY; NULL: `repo` is another store */
	struct digest digest;
};

static const char *text_of(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));

	return text ? text : "";
}

static bool is_header(const char *s)
{
	if (strlen(s) > AUTHORIZATION_MAX)
		return false;
	for (; *s; s++)
		if (*s < ' ' || *s > '~')
			return false;
	return true;
}

static int read_capability_wish(struct call *c, struct wish *w,
				struct error *err)
{
	json_error_t why;
	int rc;

	w->o = json_loadb(c->req->body ? c->req->body : "",
			  c->req->head.content_length, 0, &why);
	if (!w->o)
		return error_set(err, EINVAL, "JSON, line %d: %s", why.line,
				 why.text);
	w->image = text_of(w->o, "image");
	w->repo = text_of(w->o, "repo");
	w->node = text_of(w->o, "node");
	w->authorization = text_of(w->o, "authorization");
	rc = digest_parse(w->image, &w->digest, err);
	w->pulled = capability_repo_of(w->repo);
	if (rc == 0 && !w->pulled && !capability_is_store(w->repo))
		rc = error_set(err, EINVAL,
			       "repo must be HOST/REPOSITORY, or the URL of a "
			       "store without options");
	if (rc == 0 && !is_header(w->authorization))
		rc = error_set(err, EINVAL,
			       "authorization must be a header's value");
	if (rc == 0)
		rc = call_check_node(c, w->node, err);
	return rc == 0 && w->pulled ? call_check_repo(c, w->pulled, err) : rc;
}

/* ---------------------------------------------------------------- the registry --- */

/* Find the state of timeouts of the repository's registry; NULL: that registry is not listed in
 * --registry, so it is never called. */
static struct patience *patience_with(const struct issuer *i, const char *repo)
{
	char *const *all = i->cfg->registries;
	size_t n = strcspn(repo, "/");

	for (size_t k = 0; all && all[k]; k++)
		if (strlen(all[k]) == n && strncmp(all[k], repo, n) == 0)
			return &i->patience[k];
	return NULL;
}

static int deny_call(struct call *c, struct error *err, const char *why)
{
	atomic_fetch_add(&c->service->issuer->denied, 1);
	return call_fail(c, HTTPD_FORBIDDEN, NULL, err, "%s", why);
}

static int judge_status(struct call *c, long status, struct error *err)
{
	struct issuer *i = c->service->issuer;

	switch (status) {
	case 200:
		return 0;
	case 401:
	case 403:
		return deny_call(c, err, "the registry does not let it pull");
	case 404:
		return deny_call(c, err,
				 "the registry has no such image for it");
	default:
		atomic_fetch_add(&i->failed, 1);
		return error_set(err, EBUSY, "the registry answered %ld",
				 status);
	}
}

static int call_registry(struct issuer *i, const char *repo,
			 struct http_request *req, struct http_response *r,
			 struct error *err)
{
	struct patience *p = patience_with(i, repo);
	int64_t now = clock_now_ns();
	int rc;

	if (!patience_begin(p, now))
		return error_set(err, EBUSY,
				 "it did not answer a moment ago, and is being "
				 "asked");
	req->deadline_ns = now + DEADLINE_NS;
	rc = http_do(i->http, req, r, err);
	/* Only a timeout makes later calls wait: other failures are quick, and the request itself
	 * may be their cause. */
	patience_end(p, clock_now_ns(), rc != -ETIMEDOUT);
	return rc;
}

/* Ask the registry whether the image may be pulled with these credentials, since only the registry
 * knows. `kind` is "manifests" or "blobs": what the digest names there. */
static int ask_registry(struct call *c, const struct issuer_pull *p,
			const char *kind, struct error *err)
{
	struct issuer *i = c->service->issuer;
	AUTO_FINI(http_response) r = HTTP_RESPONSE_INIT;
	const char *slash = strchr(p->repo, '/');
	AUTO_BUF url = BUF_INIT;
	AUTO_BUF auth = BUF_INIT;
	const char *headers[] = {
		"Accept: application/vnd.oci.image.manifest.v1+json, "
		"application/vnd.oci.image.index.v1+json, "
		"application/vnd.docker.distribution.manifest.v2+json, "
		"application/vnd.docker.distribution.manifest.list.v2+json",
		NULL, NULL
	};
	struct http_request req = { .method = "HEAD", .headers = headers };
	int rc;

	if (buf_printf(&url, "%s://%.*s/v2/%s/%s/%s",
		       i->cfg->registry_plain_http ? "http" : "https",
		       (int)(slash - p->repo), p->repo, slash + 1, kind,
		       p->image) < 0 ||
	    buf_printf(&auth, "Authorization: %s", p->authorization) < 0)
		return error_nomem(err);
	if (p->authorization[0])
		headers[1] = auth.data;
	req.url = url.data;
	rc = call_registry(i, p->repo, &req, &r, err);
	if (rc < 0) {
		atomic_fetch_add(&i->failed, 1);
		rc = error_wrap(err, -EBUSY, "registry");
	} else {
		rc = judge_status(c, r.status, err);
	}
	return rc;
}

static int refuse_unlisted_registry(struct call *c, struct error *err)
{
	return deny_call(c, err,
			 "this service does not ask that registry: its "
			 "--registry names those that it does");
}

int issuer_check_pull(struct call *c, const struct issuer_pull *p,
		      struct error *err)
{
	if (!strchr(p->repo, '/') ||
	    !patience_with(c->service->issuer, p->repo))
		return refuse_unlisted_registry(c, err);
	return ask_registry(c, p, "manifests", err);
}

/* Ask the registry for the manifest. An environment has its manifest in a blob, so ask for that. */
static int ask_for_wish(struct call *c, const struct wish *w, struct error *err)
{
	const struct issuer_pull p = {
		.image = w->image,
		.repo = w->pulled,
		.authorization = w->authorization,
	};

	return ask_registry(c, &p, w->pulled == w->repo ? "manifests" : "blobs",
			    err);
}

/* Check only that the caller's token may read the store: its readers may read everything in it, and
 * a capability for a missing object is of no use. */
static int check_store_right(struct call *c, const struct wish *w,
			     struct error *err)
{
	AUTO_BUF why = BUF_INIT;

	if (c->token && token_has_store(c->token, w->repo))
		return 0;
	if (buf_printf(&why, "the tokens file does not say%s%s: stores=%s",
		       c->token ? " for " : "", c->token ? c->token->name : "",
		       w->repo) < 0)
		return error_nomem(err);
	return deny_call(c, err, why.data);
}

static int judge_wish(struct call *c, const struct wish *w, struct error *err)
{
	if (!w->pulled)
		return check_store_right(c, w, err);
	return patience_with(c->service->issuer, w->pulled)
		       ? 0
		       : refuse_unlisted_registry(c, err);
}

/* ------------------------------------------------------------------ revocations --- */

struct revocation {
	const char *image, *node;
	int64_t now;
	bool is_full; /* the list of revocations is full */
};

static int ignore_revoked_row(void *arg, const struct db_value *row)
{
	(void)arg;
	(void)row;
	return 0;
}

static int find_revoked(struct db_conn *c, void *arg, struct error *err)
{
	const struct revocation *r = arg;
	const struct db_value params[] = { db_text(r->image),
					   db_text(r->node) };

	return db_query(c, SQL_REVOKED, params, ARRAY_SIZE(params),
			ignore_revoked_row, NULL, err);
}

static int put_revoked(struct db_conn *c, void *arg, struct error *err)
{
	struct revocation *r = arg;
	const struct db_value params[] = { db_text(r->image), db_text(r->node),
					   DB_INT(r->now),
					   DB_INT(REVOCATIONS_MAX) };
	int n = db_query(c, SQL_REVOKE, params, ARRAY_SIZE(params), NULL, NULL,
			 err);
	int known = n == 0 ? find_revoked(c, arg, err) : n;

	r->is_full = known == 0;
	return known < 0 ? known : n;
}

static int drop_revoked(struct db_conn *c, void *arg, struct error *err)
{
	const struct revocation *r = arg;
	const struct db_value params[] = { db_text(r->image),
					   db_text(r->node) };

	return db_query(c, SQL_RESTORE, params, ARRAY_SIZE(params), NULL, NULL,
			err);
}

static int change_revocation(struct call *c,
			     int (*fn)(struct db_conn *c, void *arg,
				       struct error *err),
			     const char *what, struct error *err)
{
	struct revocation r = { .image = call_param(c, "image"),
				.node = call_param(c, "node"),
				.now = time(NULL) };
	int n = call_check_repo(c, "", err);

	if (n < 0)
		return n;
	if (!r.image[0] && !r.node[0])
		return error_set(err, EINVAL, "image or node is missing");
	n = db_run(c->service->db, DB_WRITE, fn, &r, err);
	if (n < 0)
		return n;
	if (r.is_full)
		return call_fail(c, HTTPD_TOO_MANY, NULL, err,
				 "%d revocations are kept, and no more: take "
				 "old ones back, or revoke a whole node or "
				 "image",
				 REVOCATIONS_MAX);
	return call_send_json(c, json_pack("{s:i}", what, n), err);
}

int capabilities_revoke(struct call *c, struct error *err)
{
	return change_revocation(c, put_revoked, "revoked", err);
}

int capabilities_restore(struct call *c, struct error *err)
{
	return change_revocation(c, drop_revoked, "restored", err);
}

/* --------------------------------------------------------------------- answers --- */

static int send_capability(struct call *c, const struct wish *w,
			   struct error *err)
{
	struct issuer *i = c->service->issuer;
	int64_t now = time(NULL);
	struct capability cap = {
		.image = w->digest,
		.not_before = now - CLOCKS_APART_S,
		.not_after = now + i->cfg->capability_time / NS_PER_S,
		.rights = CAPABILITY_PULL,
	};
	uint8_t data[CAPABILITY_MAX];
	AUTO_BUF text = BUF_INIT;
	size_t len;
	int rc;

	(void)snprintf(cap.node, sizeof(cap.node), "%s", w->node);
	(void)snprintf(cap.repo, sizeof(cap.repo), "%s", w->repo);
	pthread_mutex_lock(&i->lock);
	rc = capability_sign(i->signer, &cap, data, &len, err);
	pthread_mutex_unlock(&i->lock);
	if (rc < 0)
		return rc;
	if (base64_encode(data, len, &text) < 0)
		return error_nomem(err);
	atomic_fetch_add(&i->granted, 1);
	return call_send_json(c,
			      json_pack("{s:s,s:I}", "capability", text.data,
					"not_after", (json_int_t)cap.not_after),
			      err);
}

int capabilities_post(struct call *c, struct error *err)
{
	struct issuer *i = c->service->issuer;
	struct wish w = { .o = NULL };
	int rc;

	if (!i->cfg->capability_key)
		return refuse_without_key(c, err);
	rc = read_capability_wish(c, &w, err);
	if (rc == 0)
		rc = judge_wish(c, &w, err);
	if (rc == 0) {
		struct revocation r = { .image = w.image, .node = w.node };

		rc = db_run(c->service->db, DB_ALONE, find_revoked, &r, err);
		if (rc > 0)
			rc = deny_call(c, err, "it was revoked");
	}
	if (rc == 0 && w.pulled)
		rc = ask_for_wish(c, &w, err);
	if (rc == 0)
		rc = send_capability(c, &w, err);
	json_decref(w.o);
	return rc;
}

static int add_revocation(void *arg, const struct db_value *row)
{
	json_t *all = arg;

	return json_array_append_new(all,
				     json_pack("{s:s%,s:s%,s:I}", "image",
					       row[0].data, row[0].len, "node",
					       row[1].data, row[1].len, "since",
					       (json_int_t)row[2].n)) < 0
		       ? -ENOMEM
		       : 0;
}

static int list_revocations(struct db_conn *c, void *arg, struct error *err)
{
	return db_query(c, SQL_REVOCATIONS, NULL, 0, add_revocation, arg, err);
}

int capabilities_keys(struct call *c, struct error *err)
{
	struct issuer *i = c->service->issuer;
	json_t *all, *o;
	int rc;

	if (!i->cfg->capability_key)
		return refuse_without_key(c, err);
	all = json_array();
	if (!all)
		return error_nomem(err);
	rc = db_run(c->service->db, DB_ALONE, list_revocations, all, err);
	if (rc < 0) {
		json_decref(all);
		return rc;
	}
	pthread_mutex_lock(&i->lock);
	o = json_pack("{s:s,s:o}", "keys", i->keys.data, "revoked", all);
	pthread_mutex_unlock(&i->lock);
	rc = call_send_json(c, o, err);
	return rc < 0 ? rc : call_send_if_new(c, err);
}
