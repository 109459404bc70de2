// SPDX-License-Identifier: Apache-2.0
/* A repository of a registry is opened, with its mirrors, as a store of images. */
#include "objects/oci_registry.h"

#include <stdio.h>
#include <string.h>

#include "common/cond.h"

/* The manifest is read for it: a token may be over, or of another right. */
static int registry_authorization(struct oci_store *s, const struct digest *d,
				  struct pace *pace, char **ret,
				  struct error *err)
{
	static const char name[] = "Authorization: ";
	struct oci_manifest m = { .body = BUF_INIT };
	struct registry *r = registry_of(s);
	AUTO_FREE char *line = NULL;
	char ref[DIGEST_STR_MAX];
	unsigned int generation;
	int rc;

	digest_format(d, ref);
	/* Nothing that a mirror was shown is kept for the registry. */
	rc = registry_read_manifest(s, ref, false, pace, &m, err);
	oci_manifest_fini(&m);
	if (rc < 0)
		return rc;
	line = registry_login_line(r, &generation, NULL);
	if (!line || strncasecmp(line, name, strlen(name)) != 0)
		return 0;
	*ret = strdup(line + strlen(name));
	return *ret ? 0 : error_nomem(err);
}

static int registry_with_pace(struct oci_store *s, struct pace *pace,
			      struct oci_store **ret, struct error *err)
{
	struct registry *r = registry_whole(registry_of(s));
	struct registry *part = calloc(1, sizeof(*part));

	if (!part)
		return error_nomem(err);
	part->base.ops = r->base.ops;
	atomic_init(&part->refs, 1);
	part->whole = registry_ref(r);
	part->http = r->http;
	part->auth_file = r->auth_file;
	part->host = r->host;
	part->repo = r->repo;
	part->url = r->url;
	part->origin = r->origin;
	part->cfg = r->cfg;
	part->cfg.pace = pace;
	*ret = &part->base;
	return 0;
}

static void registry_free(struct oci_store *s)
{
	registry_unref(registry_of(s));
}

static const struct oci_store_ops registry_ops = {
	.name = "registry",
	.get_manifest = registry_pull_manifest,
	.open_blob = registry_open_blob,
	.find_blob = registry_find_blob,
	.put_blob = registry_put_blob,
	.put_manifest = registry_put_manifest,
	.remove_manifest = registry_remove_manifest,
	.list_tags = registry_list_tags,
	.list_referrers = registry_list_referrers,
	.list_noted = registry_list_noted,
	.with_pace = registry_with_pace,
	.authorization = registry_authorization,
	.free = registry_free,
};

/* docker's own registry answers under another name. */
static const char *api_host(const char *host)
{
	return strcmp(host, "docker.io") == 0 ? "registry-1.docker.io" : host;
}

static void set_origin(struct registry *r)
{
	const char *host = strstr(r->url, "://") + 3;

	r->origin =
		strndup(r->url, (size_t)(host - r->url) + strcspn(host, "/"));
}

/* How `r` is spoken to, with what hosts.toml says of it in `m`; NULL: nothing. */
static int fill_access(struct registry *r, const struct oci_ref *ref,
		       const struct oci_config *cfg, struct oci_mirror *m,
		       struct error *err)
{
	const char *origin = m ? m->origin : NULL;
	struct http_config http = {
		.ca_file = cfg->ca_file,
		.allow_plain = cfg->plain_http,
		.tells_referer = true,
		.heard_ns = &r->heard_ns,
		.connect_timeout_ms = cfg->connect_timeout_ms,
		.stall_timeout_ms = cfg->stall_timeout_ms,
		.least_rate = cfg->least_rate,
		.cures = cfg->cures,
	};
	const char *host = origin ? strstr(origin, "://") + 3 : ref->host;
	bool is_same = strcmp(host, ref->host) == 0 ||
		       strcmp(host, api_host(ref->host)) == 0;
	AUTO_BUF url = BUF_INIT;
	int rc;

	if (origin)
		rc = buf_printf(&url, "%s%s/%s", origin, m->path, ref->repo);
	else
		rc = buf_printf(&url, "%s://%s/v2/%s",
				cfg->plain_http ? "http" : "https",
				api_host(ref->host), ref->repo);
	/* The login of a host is for that host. */
	r->host = strdup(is_same ? ref->host : host);
	if (rc < 0 || !r->host)
		return error_nomem(err);
	r->url = buf_steal(&url);
	set_origin(r);
	if (!is_same && asprintf(&r->query, "ns=%s", ref->host) < 0)
		r->query = NULL;
	if (!r->origin || (!is_same && !r->query))
		return error_nomem(err);
	r->uses = REGISTRY_PULLS | REGISTRY_RESOLVES;
	if (m) {
		r->uses = (m->pulls ? REGISTRY_PULLS : 0) |
			  (m->resolves ? REGISTRY_RESOLVES : 0);
		oci_mirror_access(m, &http);
		memcpy(r->extra, m->headers, sizeof(r->extra));
		memset(m->headers, 0, sizeof(m->headers));
	}
	return http_new(&http, &r->http, err);
}

static int fill_registry(struct registry *r, const struct oci_ref *ref,
			 const struct oci_config *cfg, struct oci_mirror *m,
			 struct error *err)
{
	r->cfg = *cfg;
	if (r->cfg.attempts == 0)
		r->cfg.attempts = 1;
	r->cfg.auth_file = NULL;
	r->cfg.ca_file = NULL;
	r->cfg.hosts_dirs = NULL;
	if (cfg->auth_file)
		r->auth_file = strdup(cfg->auth_file);
	r->repo = strdup(ref->repo);
	if (!r->repo || (cfg->auth_file && !r->auth_file))
		return error_nomem(err);
	return fill_access(r, ref, cfg, m, err);
}

static int registry_new(const struct oci_ref *ref, const struct oci_config *cfg,
			struct oci_mirror *m, struct registry **ret,
			struct error *err)
{
	struct registry *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return error_nomem(err);
	r->base.ops = &registry_ops;
	atomic_init(&r->refs, 1);
	(void)pthread_mutex_init(&r->lock, NULL);
	cond_init(&r->logged_in);
	rc = fill_registry(r, ref, cfg, m, err);
	if (rc < 0)
		registry_unref(r);
	else
		*ret = r;
	return rc;
}

/* As containerd does: a file that cannot be read is as none, and that is said. */
static void load_mirrors(const struct oci_ref *ref,
			 const struct oci_config *cfg, struct oci_mirrors *ret)
{
	struct error why = ERROR_INIT;

	if (oci_mirrors_load(cfg->hosts_dirs, ref->host, ret, &why) < 0 &&
	    cfg->watch)
		cfg->watch->misread(cfg->watch, ref->host, &why);
}

int oci_registry_new(const struct oci_ref *ref, const struct oci_config *cfg,
		     bool create, struct oci_store **ret, struct error *err)
{
	struct oci_mirrors said = { .n = 0 };
	struct registry *r = NULL;
	int rc;

	(void)create;
	load_mirrors(ref, cfg, &said);
	rc = registry_new(ref, cfg, said.n ? &said.list[said.n - 1] : NULL, &r,
			  err);
	for (size_t i = 0; rc == 0 && i + 1 < said.n; i++) {
		rc = registry_new(ref, cfg, &said.list[i], &r->mirrors[i], err);
		r->n_mirrors += rc == 0;
		if (rc == 0) {
			r->mirrors[i]->is_mirror = true;
			/* Logins were shown to the registry, and are not for its mirrors. */
			r->mirrors[i]->cfg.logins = NULL;
		}
	}
	oci_mirrors_fini(&said);
	if (rc < 0 && r)
		registry_unref(r);
	else if (rc == 0)
		*ret = &r->base;
	return rc;
}
