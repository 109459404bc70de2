// SPDX-License-Identifier: Apache-2.0
#include "cli/env.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "net/service_client.h"

#define STORE_MEMORY (64u << 20)

int env_check_store(const char *url, struct error *err)
{
	if (!url)
		return error_set(err, EINVAL,
				 "where are the snapshots? --store URL");
	return store_access_check(url, err);
}

int env_check_first(const void *config, char **args, struct error *err)
{
	return env_check_store(args[0], err);
}

int env_check_parts(const struct env_parts *p, struct error *err)
{
	struct digest d;
	int rc = 0;

	for (char *const *v = p->values; v && *v; v++)
		if (!strchr(*v, '=') || **v == '=')
			return error_set(err, EINVAL,
					 "--key '%.100s' is no NAME=VALUE", *v);
	for (char *const *f = p->files; f && *f; f++)
		if (access(*f, R_OK) < 0)
			return error_set(err, errno, "--key-file '%.200s': %s",
					 *f, strerror(errno));
	if (p->merge && !(p->targets && p->targets[0]))
		return error_set(err, EINVAL,
				 "--merge: where is the cache? --target DIR");
	if (p->image)
		rc = digest_parse(p->image, &d, err);
	return rc < 0 ? error_wrap(err, rc, "--image") : 0;
}

int env_store_open(const struct store_access *a, const char *url,
		   struct object_store **ret, struct error *err)
{
	struct object_store_config cfg = OBJECT_STORE_CONFIG_INIT;

	/* A store gets one blob at a time here, and a large buffer delays a start, as the kernel
	 * has to provide its memory. */
	cfg.memory = STORE_MEMORY;
	cfg.shares_files = true;
	return store_access_open(a, url, &cfg, ret, err);
}

int env_check_service(const struct env_service_access *v, struct error *err)
{
	const struct service_client_config cfg = { .url = v->service,
						   .token_file = v->token_file,
						   .timeout_ms = 1000 };
	AUTO(service_client) c = NULL;

	return v->service ? service_client_new(&cfg, &c, err) : 0;
}

static void warn_service_away(void *who, const char *why)
{
	fprintf(stderr, "%s: %s: the store's own index is used\n",
		(const char *)who, why);
}

static void warn_snapshot_unlisted(void *who, const char *why)
{
	fprintf(stderr,
		"%s: %s: the store's own index has not got the snapshot, which "
		"'env gc' removes in two days\n",
		(const char *)who, why);
}

static int open_service(const struct store_access *a,
			const struct env_service_access *v, const char *url,
			const char *who, int64_t ttl_ms, struct env_opened *o,
			struct error *err)
{
	const struct service_client_config cfg = {
		.url = v->service,
		.token_file = v->token_file,
		.ca_file = v->ca_file,
		.timeout_ms = (uint32_t)(a->timeout_ns / 1000000),
	};
	struct env_service s = { .ttl_ms = ttl_ms,
				 .is_away = warn_service_away,
				 .is_unlisted = warn_snapshot_unlisted };
	int rc = service_client_new(&cfg, &o->client, err);

	if (rc < 0)
		return error_wrap(err, rc, "--service");
	o->repo = env_service_repo(url);
	if (!o->repo)
		return error_nomem(err);
	s.client = o->client;
	s.repo = o->repo;
	s.arg = (void *)(uintptr_t)who;
	return env_catalog_of_service(o->store, &s, &o->catalog, err);
}

int env_open(const struct store_access *a, const struct env_service_access *v,
	     const char *url, const char *who, int64_t ttl_ms,
	     struct env_opened *ret, struct error *err)
{
	struct env_opened o = { .store = NULL };
	int rc = env_store_open(a, url, &o.store, err);

	if (rc == 0 && v->service)
		rc = open_service(a, v, url, who, ttl_ms, &o, err);
	else if (rc == 0)
		rc = env_catalog_of_store(o.store, &o.catalog, err);
	if (rc < 0)
		env_opened_fini(&o);
	else
		*ret = o;
	return rc;
}

void env_opened_fini(struct env_opened *o)
{
	env_catalog_free(o->catalog);
	object_store_free(o->store);
	service_client_free(o->client);
	free(o->repo);
	*o = (struct env_opened){ .store = NULL };
}

void env_format_time(int64_t ms, char ret[ENV_TIME_ROOM])
{
	time_t t = (time_t)(ms / 1000);
	struct tm tm;

	(void)snprintf(ret, ENV_TIME_ROOM, "-");
	if (localtime_r(&t, &tm))
		(void)strftime(ret, ENV_TIME_ROOM, "%Y-%m-%d %H:%M", &tm);
}
