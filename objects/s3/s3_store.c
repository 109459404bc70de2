// SPDX-License-Identifier: Apache-2.0
/*
 * The s3: back end. An object of the store is an object of the bucket; its key is the prefix of
 * the URL and the name.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/bytes.h"
#include "net/url.h"
#include "objects/s3/s3_store_priv.h"
#include "objects/store/parts.h"

/* Each S3 connection has a limited rate: 16 files, with 24 MiB/s for each connection, came at
 * 264 MiB/s by 8 connections, 344 by 16 and 423 by 24 (bench/ckpt). */
#define PARALLEL 24u
/* Connections if memory suffices: with 1 GiB, 16 files through a mount came at 457 MiB/s by 24
 * and 496 by 48; with 512 MiB, 48 are not better than 24. */
#define PARALLEL_LARGE 48u
#define LARGE (512 * MIB)
#define HEDGES 4u /* threads for hedges, beside those of `parallel` */

static const struct http_cures cures = {
	.plain = "write the endpoint with http://",
	.tls = "write the endpoint with https://",
	.ca = "name the authority's file",
	.ca_file = "the file of authorities",
	.proxy = HTTP_CURE_PROXY,
};

/* ------------------------------------------------------------------- names --- */

/* Remove one version. S3 reports success for a missing object, and also for another version if
 * the server cannot compare, so look first. */
static int remove_version(struct object_store *base, const char *name,
			  const char *tag, struct error *err)
{
	struct s3_store *s = s3_store_of(base);
	struct s3_request r = { .method = "DELETE", .name = name };
	AUTO_FINI(http_response) resp = HTTP_RESPONSE_INIT;
	struct object_stat now;
	int rc = s3_store_stat(base, name, &now, err);

	if (rc == 0 && tag && strcmp(now.tag, tag) != 0)
		rc = error_set(err, ESTALE, "another has replaced it");
	if (rc == 0) {
		s3_header(&r, "if-match",
			  s->base.caps.has_match_delete ? tag : NULL);
		rc = s3_call(s, &r, &resp, err);
		if (rc < 0 && resp.status == 404)
			rc = 0;
	}
	return rc;
}

static int s3_remove(struct object_store *base, const char *name,
		     const char *tag, struct error *err)
{
	struct s3_store *s = s3_store_of(base);
	struct store_lock lock = { .name = NULL };
	bool locked = tag && !s->base.caps.has_match_delete;
	int rc = locked ? store_lock(base, name, &lock, err) : 0;

	if (rc < 0)
		return rc;
	rc = remove_version(base, name, tag, err);
	store_unlock(base, &lock);
	return rc;
}

static int s3_remove_folder(struct object_store *base, const char *folder,
			    struct error *err)
{
	AUTO_BUF name = BUF_INIT;

	if (buf_printf(&name, "%s/", folder) < 0)
		return error_nomem(err);
	return remove_version(base, name.data, NULL, err);
}

static int copy_source(const struct s3_store *s, const char *name,
		       struct buf *ret, struct error *err)
{
	AUTO_BUF key = BUF_INIT;
	int rc = s3_key(s, name, &key, err);

	if (rc == 0)
		rc = buf_printf(ret, "/%s/", s->bucket);
	if (rc == 0)
		rc = store_url_encode(ret, key.data, "/");
	return rc < 0 ? error_nomem(err) : 0;
}

static int copy_object(struct s3_store *s, const char *from,
		       const struct object_stat *st, const char *to,
		       struct error *err)
{
	AUTO_BUF source = BUF_INIT;
	AUTO_FINI(http_response) resp = HTTP_RESPONSE_INIT;
	struct s3_request r = { .method = "PUT", .name = to };
	int rc;

	if (st->size > S3_COPY_MAX)
		return error_set(err, ENOTSUP,
				 "S3 copies no more than 5 GiB at once, and it "
				 "has %" PRIu64,
				 st->size);
	rc = copy_source(s, from, &source, err);
	if (rc < 0)
		return rc;
	s3_header(&r, "x-amz-copy-source", source.data);
	s3_header(&r, "x-amz-copy-source-if-match", st->tag);
	return s3_call(s, &r, &resp, err);
}

static int s3_store_rename(struct object_store *base, const char *from,
			   const char *to, enum object_condition condition,
			   struct error *err)
{
	const struct object_put new = { .name = (char *)(uintptr_t)to,
					.condition = condition };
	struct s3_store *s = s3_store_of(base);
	struct store_lock lock = { .name = NULL };
	struct object_stat st;
	int rc = s3_store_stat(base, from, &st, err);

	if (rc == 0 && condition == OBJECT_NEW)
		rc = store_lock(base, to, &lock, err);
	if (rc == 0)
		rc = store_condition(base, &new, err);
	if (rc == 0)
		rc = copy_object(s, from, &st, to, err);
	store_unlock(base, &lock);
	if (rc < 0)
		return rc;
	/* Keep an object that another program has put since the copy. */
	rc = s3_remove(base, from, st.tag, err);
	return rc == -ESTALE || rc == -ENOENT ? 0 : rc;
}

static void s3_free(struct object_store *base)
{
	struct s3_store *s = s3_store_of(base);

	store_fini(base);
	http_free(s->http);
	s3_login_free(s->login);
	fetch_history_free(s->history);
	free(s->region);
	free(s->origin);
	free(s->host);
	free(s->bucket);
	free(s->bucket_path);
	free(s->prefix);
	free(s);
}

static const struct object_store_ops s3_ops = {
	.probe = s3_store_probe,
	.stat = s3_store_stat,
	.list = s3_store_list,
	.remove_folder = s3_remove_folder,
	.open = s3_store_open_object,
	.open_unasked = s3_store_open_unasked,
	.open_head = s3_store_open_head,
	.get = s3_store_get,
	.read = s3_store_read,
	.close = s3_store_close,
	.put_open = s3_store_put_open,
	.put_write = put_parts_write,
	.put_room = put_parts_room,
	.put_commit = s3_store_put_commit,
	.put_free = s3_store_put_free,
	.remove = s3_remove,
	.rename = s3_store_rename,
	.sweep = s3_store_sweep,
	.free = s3_free,
	.tells_waits = true,
	.is_remote = true,
};

/* -------------------------------------------------------------------- open --- */

static const char *first_text_that_is_set(const char *a, const char *b,
					  const char *c)
{
	return a ? a : b ? b : c;
}

/* Can the bucket's name be part of a host name, also with TLS? */
static bool fits_host(const char *bucket)
{
	return strspn(bucket, "abcdefghijklmnopqrstuvwxyz0123456789-") ==
	       strlen(bucket);
}

/* From the endpoint, set where requests go and their Host header. */
static int set_host(struct s3_store *s, const char *endpoint, bool in_host,
		    struct error *err)
{
	struct url u;
	bool is_default;
	int rc;

	if (!url_is_origin(endpoint) || url_parse(endpoint, &u) < 0)
		return error_set(err, EINVAL,
				 "'%.200s' is not an endpoint: want "
				 "https://HOST[:PORT] or http://HOST[:PORT]",
				 endpoint);
	is_default = strcmp(u.port,
			    strcmp(u.scheme, "https") == 0 ? "443" : "80") == 0;
	rc = asprintf(&s->host, "%s%s%s%s%s", in_host ? s->bucket : "",
		      in_host ? "." : "", u.host, is_default ? "" : ":",
		      is_default ? "" : u.port);
	if (rc >= 0)
		rc = asprintf(&s->origin, "%s://%s", u.scheme, s->host);
	if (rc >= 0)
		rc = asprintf(&s->bucket_path, "%s%s", in_host ? "" : "/",
			      in_host ? "" : s->bucket);
	url_fini(&u);
	return rc < 0 ? error_nomem(err) : 0;
}

static int set_place(struct s3_store *s, struct store_url *url,
		     struct error *err)
{
	const char *region = first_text_that_is_set(
		store_url_take(url, "region"),
		first_text_that_is_set(store_variable("AWS_REGION"),
				       store_variable("AWS_DEFAULT_REGION"),
				       NULL),
		"us-east-1");
	const char *endpoint =
		first_text_that_is_set(store_url_take(url, "endpoint"),
				       store_variable("AWS_ENDPOINT_URL_S3"),
				       store_variable("AWS_ENDPOINT_URL"));
	AUTO_BUF own = BUF_INIT;
	bool in_path;
	int rc;

	s->bucket = strdup(url->authority);
	s->region = strdup(region);
	if (!s->bucket || !s->region ||
	    asprintf(&s->prefix, "%s%s", url->path, *url->path ? "/" : "") < 0)
		return error_nomem(err);
	if (!*s->bucket ||
	    strspn(s->bucket, "abcdefghijklmnopqrstuvwxyz"
			      "0123456789.-_") != strlen(s->bucket))
		return error_set(err, EINVAL,
				 "'%.80s' is not a bucket: want s3://BUCKET or "
				 "s3://BUCKET/PREFIX",
				 s->bucket);
	if (!endpoint &&
	    buf_printf(&own, "https://s3.%s.amazonaws.com", region) < 0)
		return error_nomem(err);
	in_path = endpoint || !fits_host(s->bucket);
	rc = store_url_take_either(url, "style", "path", "host", &in_path, err);
	if (rc == 0)
		rc = set_host(s, endpoint ? endpoint : own.data, !in_path, err);
	return rc;
}

static int set_login(struct s3_store *s, struct store_url *url,
		     const struct http_config *http, struct error *err)
{
	const struct s3_login_config cfg = {
		.profile = store_url_take(url, "profile"),
		.region = s->region,
		.http = http,
	};
	bool is_anonymous = false;
	int rc = store_url_take_either(url, "anonymous", "yes", "no",
				       &is_anonymous, err);

	if (rc < 0 || is_anonymous)
		return rc;
	return s3_login_new(&cfg, &s->login, err);
}

static int set_up_s3_store(struct s3_store *s, struct store_url *url,
			   const struct object_store_config *cfg,
			   unsigned int parallel, struct error *err)
{
	struct http_config http = {
		.cures = &cures,
		.ca_file = cfg->ca_file,
		.stays = true,
		.connect_timeout_ms = cfg->connect_timeout_ms,
		.stall_timeout_ms = cfg->stall_timeout_ms,
		.max_idle = parallel + HEDGES,
		.heard_ns = &s->base.silence.heard_ns,
	};
	bool is_auto = true;
	int rc = set_place(s, url, err);

	if (rc == 0)
		rc = store_url_take_either(url, "conditions", "auto", "lock",
					   &is_auto, err);
	if (rc < 0)
		return rc;
	s->by_lock = !is_auto;
	http.allow_plain = strncmp(s->origin, "http:", 5) == 0;
	rc = http_new(&http, &s->http, err);
	if (rc == 0)
		rc = set_login(s, url, &http, err);
	if (rc == 0)
		rc = fetch_history_new(&s->history, err);
	return rc;
}

static int s3_open(struct store_url *url, const struct object_store_config *cfg,
		   struct object_store **ret, struct error *err)
{
	unsigned int parallel = cfg->parallel          ? cfg->parallel
				: cfg->memory >= LARGE ? PARALLEL_LARGE
						       : PARALLEL;
	struct s3_store *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return error_nomem(err);
	if (parallel > OBJECT_PARALLEL_MAX)
		parallel = OBJECT_PARALLEL_MAX;
	rc = store_init(&s->base, &s3_ops, url, cfg, parallel + HEDGES, err);
	if (rc == 0)
		rc = set_up_s3_store(s, url, cfg, parallel, err);
	if (rc < 0) {
		s3_free(&s->base);
		return rc;
	}
	/* Abilities of current servers, until a probe tests them. */
	s->base.caps = (struct object_caps){
		.has_new = !s->by_lock,
		.has_match = !s->by_lock,
		.has_replace = true,
		.has_checksum = true,
		.parallel = parallel,
		.read_size = S3_READ,
		.part_size = S3_PART,
		.put_once = S3_PART,
	};
	*ret = &s->base;
	return 0;
}

static const char *const schemes[] = { "s3", NULL };

const struct object_store_kind s3_store_kind = {
	.schemes = schemes,
	.open = s3_open,
};
