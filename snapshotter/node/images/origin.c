// SPDX-License-Identifier: Apache-2.0
/*
 * The one file that composes sources: a pack reads a registry's blob, or an object of a store
 * (objects/store.h), which retries by itself and resumes in the middle of a range.  The device
 * verifies the blocks and keeps them in the cache (blockstore.h).
 *
 * A registry's store reads credentials when it is opened, so a reload opens a new one; blobs
 * that are being read keep the old one until they are done.
 */
#include "snapshotter/node/images/origin.h"

#include <pthread.h>
#include <string.h>

#include "common/bytes.h"
#include "common/registry_host.h"
#include "image/spans/spans.h"
#include "objects/oci_hosts.h"
#include "objects/store.h"
#include "snapshotter/node/images/offer_file.h"
#include "snapshotter/node/images/outages.h"
#include "snapshotter/node/constants.h"

#define STORE_MEMORY (1u << 20)
/* Folder of packs in an environment's store: docs/formats/environment.md. */
#define SHARED_PACKS "env/packs"

/* Bytes of unpacked parts of layers that are kept in memory. */
#define SPANS_BYTES (32 * MIB)

struct origins {
	pthread_mutex_t lock; /* protects lists and counts */
	const struct node_config *cfg;
	const atomic_bool *is_ending;
	origin_open_fn *open;
	/* ends requests of callers without a pace when the node ends */
	struct pace pace;
	struct outages *outages;
	struct oci_hosts *hosts;
	struct oci_logins *logins; /* NULL: none */
	struct span_cache
		*spans; /* spans of images that are read from their layers */
	struct origin *first;
};

struct origin {
	struct origin *next;
	struct origins *all;
	char *host, *repo;
	bool plain_http;
	unsigned int refs;
	struct store_lease *lease; /* the current one; NULL until used */
};

static enum pace_level origin_pace_level(struct pace *p)
{
	const struct origins *o = container_of(p, struct origins, pace);

	return atomic_load(o->is_ending) ? PACE_STOP : PACE_GO;
}

struct origins *origins_new(const struct node_config *cfg,
			    const atomic_bool *is_ending, origin_open_fn *open)
{
	struct origins *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->outages = outages_new();
	o->hosts = oci_hosts_new();
	o->spans = span_cache_new(SPANS_BYTES);
	if (!o->outages || !o->hosts || !o->spans) {
		outages_free(o->outages);
		oci_hosts_free(o->hosts);
		span_cache_free(o->spans);
		free(o);
		return NULL;
	}
	pthread_mutex_init(&o->lock, NULL);
	o->cfg = cfg;
	o->is_ending = is_ending;
	o->open = open;
	o->pace =
		(struct pace){ .level = origin_pace_level, .is_urgent = true };
	return o;
}

void origins_free(struct origins *o)
{
	if (!o)
		return;
	pthread_mutex_destroy(&o->lock);
	outages_free(o->outages);
	oci_hosts_free(o->hosts);
	span_cache_free(o->spans);
	free(o);
}

void origins_use_logins(struct origins *o, struct oci_logins *logins)
{
	o->logins = logins;
}

struct oci_hosts *origins_hosts(struct origins *o)
{
	return o->hosts;
}

struct outages *origins_outages(struct origins *o)
{
	return o->outages;
}

/* Drop a use of the lease.  Returns the store that the caller frees after unlocking, or NULL.
 * The lock is held. */
static struct oci_store *unref_locked(struct store_lease *l)
{
	struct oci_store *store = NULL;

	if (l && --l->refs == 0) {
		store = l->store;
		free(l);
	}
	return store;
}

void store_lease_end(struct store_lease *l)
{
	struct origins *all;
	struct oci_store *dead;

	if (!l)
		return;
	if (l->whole) {
		oci_store_free(l->store);
		store_lease_end(l->whole);
		free(l);
		return;
	}
	all = l->all;
	pthread_mutex_lock(&all->lock);
	dead = unref_locked(l);
	pthread_mutex_unlock(&all->lock);
	oci_store_free(dead);
}

void origins_reload(struct origins *o)
{
	struct oci_store *dead;
	struct origin *i;

	oci_hosts_forget(o->hosts);
	do {
		dead = NULL;
		pthread_mutex_lock(&o->lock);
		for (i = o->first; i && !dead; i = i->next)
			dead = unref_locked(steal_ptr(&i->lease));
		pthread_mutex_unlock(&o->lock);
		oci_store_free(dead);
	} while (dead);
}

static struct origin *find_locked(struct origins *o, const char *host,
				  const char *repo, bool plain_http)
{
	struct origin *i;

	for (i = o->first; i; i = i->next) {
		if (strcmp(i->host, host) == 0 && strcmp(i->repo, repo) == 0 &&
		    i->plain_http == plain_http)
			return i;
	}
	return NULL;
}

static void origin_destroy(struct origin *o)
{
	if (!o)
		return;
	free(o->host);
	free(o->repo);
	free(o);
}

static bool is_plain(const struct node_config *cfg, const char *host)
{
	char **h;

	for (h = cfg->plain_http; h && *h; h++) {
		if (strcmp(*h, host) == 0)
			return true;
	}
	return false;
}

int origin_get(struct origins *all, const char *host, const char *repo,
	       bool plain_http, struct origin **ret, struct error *err)
{
	struct origin *o = calloc(1, sizeof(*o)), *old;

	if (!o)
		return error_nomem(err);
	o->all = all;
	o->host = strdup(host);
	o->repo = strdup(repo);
	o->plain_http = plain_http || is_plain(all->cfg, host);
	o->refs = 1;
	if (!o->host || !o->repo) {
		origin_destroy(o);
		return error_nomem(err);
	}
	pthread_mutex_lock(&all->lock);
	old = find_locked(all, host, repo, o->plain_http);
	if (old) {
		old->refs++;
	} else {
		o->next = all->first;
		all->first = o;
	}
	pthread_mutex_unlock(&all->lock);
	if (old)
		origin_destroy(o);
	*ret = old ? old : o;
	return 0;
}

void origin_put(struct origin *o)
{
	struct origins *all;
	struct origin **p;
	struct oci_store *dead;

	if (!o)
		return;
	all = o->all;
	pthread_mutex_lock(&all->lock);
	if (--o->refs > 0) {
		pthread_mutex_unlock(&all->lock);
		return;
	}
	for (p = &all->first; *p != o; p = &(*p)->next)
		;
	*p = o->next;
	dead = unref_locked(o->lease);
	pthread_mutex_unlock(&all->lock);
	oci_store_free(dead);
	origin_destroy(o);
}

char *origin_place(const char *host, const char *repo)
{
	size_t len = strcspn(host, "?");
	char *name;

	if (!registry_host_is_store(host))
		return asprintf(&name, "%s/%s", host, repo) < 0 ? NULL : name;
	while (len > 0 && host[len - 1] == '/')
		len--;
	/* A folder gets one name only: file:/DIR becomes file:///DIR. */
	if (!strstr(host, "://"))
		return asprintf(&name, "file://%.*s", (int)(len - 5),
				host + 5) < 0
			       ? NULL
			       : name;
	return strndup(host, len);
}

/* Open an object store for an environment, with the same timeouts as a registry. */
static int open_objects(const struct origin *o, struct oci_store **ret,
			struct error *err)
{
	const struct node_config *cfg = o->all->cfg;
	struct object_store_config objects = OBJECT_STORE_CONFIG_INIT;

	objects.memory = STORE_MEMORY; /* small, since nothing is written */
	objects.connect_timeout_ms = NODE_CONNECT_MS;
	objects.stall_timeout_ms = (uint32_t)(cfg->stall_timeout / 1000000);
	objects.ca_file = cfg->ca_file;
	objects.is_write_once = true;
	return oci_objects_open(o->host, &objects, o->repo, SHARED_PACKS, ret,
				err);
}

static int open_store(struct origin *o, struct oci_store **ret,
		      struct error *err)
{
	const struct node_config *cfg = o->all->cfg;
	const struct oci_ref ref = {
		.transport = OCI_TRANSPORT_REGISTRY,
		.host = o->host,
		.repo = o->repo,
	};
	const struct oci_config oci = {
		.auth_file = cfg->auth_file,
		.hosts_dirs = cfg->hosts_dir,
		.ca_file = cfg->ca_file,
		.plain_http = o->plain_http,
		.connect_timeout_ms = NODE_CONNECT_MS,
		.stall_timeout_ms = (uint32_t)(cfg->stall_timeout / 1000000),
		.least_rate = NODE_LEAST_RATE,
		.attempts = NODE_REGISTRY_ATTEMPTS,
		.pace = &o->all->pace,
		.watch = outages_watch(o->all->outages),
		.hosts = o->all->hosts,
		.logins = o->all->logins,
	};

	if (registry_host_is_store(o->host))
		return open_objects(o, ret, err);
	return o->all->open(&ref, &oci, false, ret, err);
}

int origin_lease(struct origin *o, struct store_lease **ret, struct error *err)
{
	struct store_lease *l = NULL;
	struct oci_store *store = NULL;
	int rc;

	pthread_mutex_lock(&o->all->lock);
	if (o->lease) {
		l = o->lease;
		l->refs++;
	}
	pthread_mutex_unlock(&o->all->lock);
	if (l) {
		*ret = l;
		return 0;
	}

	/* Two threads may open a store at once; the second store is then dropped. */
	rc = open_store(o, &store, err);
	if (rc < 0)
		return rc;
	l = calloc(1, sizeof(*l));
	if (!l) {
		oci_store_free(store);
		return error_nomem(err);
	}
	*l = (struct store_lease){ .store = store, .refs = 2, .all = o->all };
	pthread_mutex_lock(&o->all->lock);
	if (o->lease) {
		free(l);
		l = o->lease;
		l->refs++;
	} else {
		o->lease = l;
		store = NULL;
	}
	pthread_mutex_unlock(&o->all->lock);
	oci_store_free(store);
	*ret = l;
	return 0;
}

int origin_lease_paced(struct origin *o, struct pace *pace,
		       struct store_lease **ret, struct error *err)
{
	struct store_lease *l;
	int rc;

	if (!pace || registry_host_is_store(o->host))
		return origin_lease(o, ret, err);
	l = calloc(1, sizeof(*l));
	if (!l)
		return error_nomem(err);
	rc = origin_lease(o, &l->whole, err);
	if (rc == 0)
		rc = oci_store_with_pace(l->whole->store, pace, &l->store, err);
	if (rc < 0) {
		store_lease_end(l->whole);
		free(l);
		return rc;
	}
	*ret = l;
	return 0;
}

/* ------------------------------------------------------------------ packs --- */

/* A blob opened from one lease; each reader has a use of it. */
struct opened {
	struct store_lease *lease;
	struct source *blob;
	unsigned int refs; /* protected by the pack's lock */
};

struct pack_source {
	struct source base;
	struct origin *origin;
	struct digest digest;
	pthread_mutex_t lock; /* protects `opened` and its `refs` */
	struct opened *opened;
};

static void opened_destroy(struct opened *b)
{
	if (!b)
		return;
	source_free(b->blob);
	store_lease_end(b->lease);
	free(b);
}

static void opened_put(struct pack_source *p, struct opened *b)
{
	bool last;

	pthread_mutex_lock(&p->lock);
	last = --b->refs == 0;
	pthread_mutex_unlock(&p->lock);
	if (last)
		opened_destroy(b);
}

/* Open the pack's blob.  Takes `lease`, also when it fails. */
static int opened_new(struct pack_source *p, struct store_lease *lease,
		      struct opened **ret, struct error *err)
{
	struct opened *b = calloc(1, sizeof(*b));
	int rc;

	if (!b) {
		store_lease_end(lease);
		return error_nomem(err);
	}
	b->lease = lease;
	b->refs = 2; /* the pack's and the caller's */
	rc = oci_open_blob(lease->store, &p->digest, p->base.size, &b->blob,
			   err);
	if (rc < 0) {
		opened_destroy(b);
		return rc;
	}
	*ret = b;
	return 0;
}

/* Take a use of the blob in the origin's current store. */
static int opened_get(struct pack_source *p, struct opened **ret,
		      struct error *err)
{
	struct store_lease *lease;
	struct opened *b, *old;
	int rc = origin_lease(p->origin, &lease, err);

	if (rc < 0)
		return rc;
	pthread_mutex_lock(&p->lock);
	b = p->opened;
	if (b && b->lease == lease)
		b->refs++;
	else
		b = NULL;
	pthread_mutex_unlock(&p->lock);
	if (b) {
		store_lease_end(lease);
		*ret = b;
		return 0;
	}
	rc = opened_new(p, lease, &b, err);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&p->lock);
	old = p->opened;
	p->opened = b;
	pthread_mutex_unlock(&p->lock);
	if (old)
		opened_put(p, old);
	*ret = b;
	return 0;
}

static int pack_read(struct source *s, const struct source_req *req,
		     struct source_sink *sink, struct error *err)
{
	struct pack_source *p = container_of(s, struct pack_source, base);
	struct opened *b;
	int rc = opened_get(p, &b, err);

	if (rc < 0)
		return rc;
	rc = source_read(b->blob, req, sink, err);
	opened_put(p, b);
	return rc;
}

static void pack_free(struct source *s)
{
	struct pack_source *p = container_of(s, struct pack_source, base);

	if (p->opened)
		opened_destroy(p->opened);
	origin_put(p->origin);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

static const struct source_ops pack_ops = {
	.name = "pack",
	.read = pack_read,
	.free = pack_free,
};

static int pack_new(struct origin *o, const struct oci_descriptor *d,
		    struct source **ret, struct error *err)
{
	struct pack_source *p = calloc(1, sizeof(*p));

	if (!p)
		return error_nomem(err);
	p->base.ops = &pack_ops;
	p->base.size = d->size;
	p->digest = d->digest;
	p->origin = o;
	pthread_mutex_init(&p->lock, NULL);
	pthread_mutex_lock(&o->all->lock);
	o->refs++;
	pthread_mutex_unlock(&o->all->lock);
	*ret = &p->base;
	return 0;
}

int origin_blobs(struct origin *o, const struct oci_descriptor *blobs, size_t n,
		 struct source ***ret, struct error *err)
{
	struct source **all = calloc(n ? n : 1, sizeof(struct source *));
	size_t i;
	int rc = 0;

	if (!all)
		return error_nomem(err);
	for (i = 0; i < n && rc == 0; i++)
		rc = pack_new(o, &blobs[i], &all[i], err);
	if (rc < 0) {
		for (i = 0; i < n; i++)
			source_free(all[i]);
		free(all);
		return rc;
	}
	*ret = all;
	return 0;
}

int origin_packs(struct origin *o, const struct artifact *a, const char *dir,
		 const struct blockmap *map, struct source ***ret,
		 struct error *err)
{
	int rc = origin_blobs(o, a->packs, a->n_packs, ret, err);

	if (rc == 0)
		rc = offer_file_windows(dir, a, *ret, err);
	if (rc == 0)
		rc = span_sources_join(map, *ret, o->all->spans, err);
	if (rc < 0)
		free(steal_ptr(ret));
	return rc;
}
