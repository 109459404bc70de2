// SPDX-License-Identifier: Apache-2.0
/*
 * A search for a trace: the service, the image's repository and the folder are asked in this
 * order, and the nearest trace is taken. It may begin while the image's metadata is being
 * fetched: only the prefetch needs that.
 */
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/registry_host.h"
#include "snapshotter/node/images/image_index.h"
#include "snapshotter/node/remote_call.h"
#include "snapshotter/node/traces/trace_lookup_priv.h"

/* A service that failed is not asked for this time. */
#define DOWN_NS (10 * NS_PER_S)
/* Longest wait for a registry's answer. A start waits for less. */
#define SEARCH_NS (10 * NS_PER_S)

/* Keep the nearer one of the best trace and `f`; free the other. */
static void keep_nearest(struct search *s, struct trace_found *f)
{
	if (!s->best.trace || f->match < s->best.match) {
		trace_free(s->best.trace);
		s->best = *f;
	} else {
		trace_free(f->trace);
	}
}

/* Ask a store; true when no other store can have a nearer trace. */
static bool ask_store(struct trace_lookup *t, struct trace_store *store,
		      struct search *s)
{
	const struct trace_query q = {
		.image = s->place.image,
		.repo = s->place.name,
		.workload = s->workload,
		.predict = strcmp(s->workload, ENVIRONMENT_WORKLOAD) != 0,
	};
	struct trace_found f = { .trace = NULL };
	struct error err = ERROR_INIT;
	int rc = trace_store_get(store, &q, &f, &err);

	if (rc == 0) {
		keep_nearest(s, &f);
		return s->best.match == TRACE_MATCH_OWN;
	}
	if (rc == -ENOENT)
		return false;
	log_warning("traces",
		    "store=%s reason=\"%s\" action=\"looked elsewhere\"",
		    store->ops->name, err.msg);
	pthread_mutex_lock(&t->lock);
	t->stats.failed++;
	/* A service that sent a trace which this node cannot use may still have usable ones of
	 * other images. */
	if (store == t->service && rc != -EBADMSG && rc != -EACCES)
		t->service_down_until = clock_now_ns() + DOWN_NS;
	pthread_mutex_unlock(&t->lock);
	return false;
}

static bool ask_service(struct trace_lookup *t, struct search *s)
{
	bool down;

	if (!t->service)
		return false;
	pthread_mutex_lock(&t->lock);
	down = clock_now_ns() < t->service_down_until;
	pthread_mutex_unlock(&t->lock);
	return !down && ask_store(t, t->service, s);
}

static bool may_ask(struct trace_lookup *t, const char *host,
		    struct trace_host **ret)
{
	bool may;

	pthread_mutex_lock(&t->lock);
	may = trace_hosts_begin(&t->hosts, host, clock_now_ns(), ret);
	pthread_mutex_unlock(&t->lock);
	if (!may)
		log_debug("traces",
			  "registry=%s action=\"not asked\" reason=\"its "
			  "last answer took too long\"",
			  host);
	return may;
}

static bool ask_oci(struct trace_lookup *t, struct search *s)
{
	int64_t now = clock_now_ns();
	struct trace_host *known;
	struct remote_call call;
	struct oci_traces o;
	bool done = false;

	if (strcmp(t->cfg->trace_oci, "no") == 0 ||
	    registry_host_is_store(s->place.host) ||
	    !may_ask(t, s->place.host, &known))
		return false;
	remote_call_init(&call, t->is_ending, NULL, now, SEARCH_NS);
	if (oci_traces_begin(t->origins, s->place.host, s->place.repo,
			     s->place.plain_http, &call.pace, &o, NULL) == 0) {
		done = ask_store(t, o.store, s);
		oci_traces_end(&o);
	}
	pthread_mutex_lock(&t->lock);
	trace_hosts_end(known, clock_now_ns() - now >= SEARCH_NS,
			clock_now_ns());
	pthread_mutex_unlock(&t->lock);
	return done;
}

struct pool *search_pool(struct trace_lookup *t, const char *host)
{
	return strcmp(t->cfg->trace_oci, "no") == 0 ||
			       registry_host_is_store(host) ||
			       trace_hosts_know(&t->hosts, host, clock_now_ns())
		       ? t->pool
		       : t->strangers;
}

void search_run(struct trace_lookup *t, struct search *s)
{
	if (!ask_service(t, s) && !ask_oci(t, s))
		(void)ask_store(t, t->folder, s);
}

enum early_state {
	EARLY_SEARCHED, /* the search runs, or its result was not taken yet */
	EARLY_FOUND,    /* the search is done; its result waits for the image */
	/* the result is not wanted: freed at the end of the search */
	EARLY_DROPPED,
};

struct trace_early {
	struct work work;
	struct trace_lookup *t;
	char *host, *repo, *name, *workload; /* texts that the search borrows */
	struct search s;
	enum early_state state; /* under trace_lookup.lock */
	/* runs when the search is done; under the same lock */
	struct work *then;
};

static void early_free(struct trace_early *e)
{
	trace_free(e->s.best.trace);
	free(e->host);
	free(e->repo);
	free(e->name);
	free(e->workload);
	free(e);
}

static void early_run(struct work *w)
{
	struct trace_early *e = container_of(w, struct trace_early, work);
	struct trace_lookup *t = e->t;
	struct work *then;
	bool is_dropped;

	search_run(t, &e->s);
	pthread_mutex_lock(&t->lock);
	is_dropped = e->state == EARLY_DROPPED;
	e->state = EARLY_FOUND;
	then = e->then;
	pthread_mutex_unlock(&t->lock);
	if (is_dropped)
		early_free(e);
	else if (then)
		then->run(then); /* this frees the search */
}

struct trace_early *trace_early_begin(struct trace_lookup *t,
				      const struct lookup_place *p,
				      const struct buf *config)
{
	struct trace_early *e = calloc(1, sizeof(*e));
	struct pool *pool;

	if (!e)
		return NULL;
	e->t = t;
	e->work.run = early_run;
	e->host = strdup(p->host);
	e->repo = strdup(p->repo);
	e->name = strdup(p->name);
	e->workload = image_config_key(config->data, config->len);
	e->s = (struct search){
		.place = { .host = e->host,
			   .repo = e->repo,
			   .name = e->name,
			   .plain_http = p->plain_http,
			   .image = p->image },
		.workload = e->workload,
	};
	pthread_mutex_lock(&t->lock);
	pool = search_pool(t, p->host);
	pthread_mutex_unlock(&t->lock);
	if (!e->host || !e->repo || !e->name || !e->workload ||
	    pool_submit(pool, &e->work) < 0) {
		early_free(e);
		return NULL;
	}
	return e;
}

void trace_early_drop(struct trace_early *e)
{
	struct trace_lookup *t;
	bool is_over;

	if (!e)
		return;
	t = e->t;
	pthread_mutex_lock(&t->lock);
	is_over = e->state == EARLY_FOUND;
	e->state = EARLY_DROPPED;
	pthread_mutex_unlock(&t->lock);
	if (is_over)
		early_free(e);
}

bool trace_early_then(struct trace_early *e, struct work *w)
{
	if (e->state == EARLY_FOUND)
		return false;
	e->then = w;
	return true;
}

char *trace_early_take(struct trace_early *e, struct trace_found *ret)
{
	*ret = e->s.best;
	e->s.best.trace = NULL;
	return steal_ptr(&e->workload);
}
