// SPDX-License-Identifier: Apache-2.0
/*
 * Look-ups of the traces of an image's workloads (workload.h has their state).  Searches
 * (trace_search.c) run on threads of their own: a start waits for one, but never longer than
 * its limit, so a store that hangs does not keep a container from starting.
 */
#include "snapshotter/node/traces/trace_lookup.h"

#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "common/cond.h"
#include "common/log.h"
#include "net/pool.h"
#include "snapshotter/node/images/image_index.h"
#include "snapshotter/node/traces/trace_lookup_priv.h"
#include "snapshotter/node/traces/workload.h"
#include "snapshotter/node/constants.h"

#define THREADS 4
#define STRANGERS 6
#define QUEUE_MAX 256

/* A search under way for one workload. */
struct workload_search {
	struct work work;
	struct trace_lookup *t;
	struct image *image; /* a use */
	struct workload_entry *entry;
	/* an earlier search whose result is used; or NULL */
	struct trace_early *early;
};

/* ------------------------------------------------------------ --- searches --- */

/* The key of a workload that was asked for without a key: from the image's config.  All readers
 * of an environment are one workload, since bootseerd does not see which programs run in it. */
static char *config_key(struct trace_lookup *t, struct image *i)
{
	struct error err = ERROR_INIT;
	AUTO_BUF config = BUF_INIT;

	if (image_is_environment(i))
		return strdup(ENVIRONMENT_WORKLOAD);
	if (image_config(t->origins, i, &config, &err) < 0) {
		log_warning("traces", "workload of image=%.12s reason=\"%s\"",
			    i->hex, err.msg);
		return NULL;
	}
	return image_config_key(config.data, config.len);
}

static void search_stores(struct workload_search *l, const char *key,
			  struct trace_found *ret)
{
	const struct image_state *state = &l->image->state;
	AUTO_FREE char *name = image_repo(l->image);
	struct search s = {
		.place = { .host = state->host,
			   .repo = state->repo,
			   .name = name,
			   .plain_http = state->plain_http,
			   .image = image_manifest(l->image) },
		.workload = key,
	};

	search_run(l->t, &s);
	*ret = s.best;
}

/* Wake the threads that wait for the answer, then begin what it is for: a mount waits for the
 * answer, and the prefetch waits for the mount. */
static void use_answer(struct workload_search *l,
		       const struct trace_found *best)
{
	struct trace_lookup *t = l->t;
	enum workload_purpose most;

	pthread_mutex_lock(&t->lock);
	workload_answer(l->entry, best);
	most = l->entry->most;
	pthread_cond_broadcast(&t->changed);
	pthread_mutex_unlock(&t->lock);
	if (l->entry->purpose != WORKLOAD_TO_LOOK &&
	    (best->trace || (l->entry->kind == WORKLOAD_OF_CONFIG &&
			     !image_is_environment(l->image))))
		t->user.found(t->user.arg, l->image, best->trace,
			      most == WORKLOAD_TO_START);
}

static void workload_search_run(struct work *w)
{
	struct workload_search *l =
		container_of(w, struct workload_search, work);
	struct workload_entry *e = l->entry;
	struct trace_found best = { .trace = NULL };
	struct trace_lookup *t = l->t;
	char *found_key = NULL;

	/* Only this search changes the key of its workload, so no lock is needed. */
	if (l->early)
		found_key = trace_early_take(l->early, &best);
	else if (!e->key)
		found_key = config_key(t, l->image);
	if (!l->early && (e->key || found_key))
		search_stores(l, e->key ? e->key : found_key, &best);
	use_answer(l, &best);
	pthread_mutex_lock(&t->lock);
	workload_end(l->image->workloads, e, found_key, clock_now_ns());
	t->stats.lookups++;
	t->stats.found += e->found;
	pthread_cond_broadcast(&t->changed);
	pthread_mutex_unlock(&t->lock);
	trace_free(best.trace);
	trace_early_drop(l->early);
	images_put(l->image);
	free(l);
}

/* Begin a search.  Takes `early` (or NULL) when it succeeds.  Lock held, as in the functions
 * below. */
static int search_start(struct trace_lookup *t, struct image *i,
			struct workload_entry *e, enum workload_purpose purpose,
			struct trace_early *early)
{
	struct workload_search *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->t = t;
	l->entry = e;
	l->early = early;
	l->image = images_get(i->all, &i->id);
	l->work.run = workload_search_run;
	/* images_get() returns another image if this one was removed, and maybe fetched again,
	 * meanwhile. */
	if (l->image != i ||
	    (!(early && trace_early_then(early, &l->work)) &&
	     pool_submit(search_pool(t, i->state.host), &l->work) < 0)) {
		images_put(l->image);
		free(l);
		return -EAGAIN;
	}
	workload_begin(e, purpose);
	return 0;
}

/* -------------------------------------------------- --- asking and waiting --- */

/* The image's workloads, made if missing.  NULL: memory is short.  Lock held, as in the
 * functions below. */
static struct image_workloads *workloads_of(struct image *i)
{
	if (!i->workloads) {
		i->workloads = calloc(1, sizeof(*i->workloads));
		i->workloads_free = image_workloads_free;
	}
	return i->workloads;
}

/* If no user prefetches, no purpose needs more than looking. */
static enum workload_purpose limit_purpose(const struct trace_lookup *t,
					   enum workload_purpose purpose)
{
	return t->user.found ? purpose : WORKLOAD_TO_LOOK;
}

/* Take the workload, and begin a search if it needs one; NULL: there is no room. */
static struct workload_entry *ask_stores(struct trace_lookup *t,
					 struct image *i, const char *key,
					 enum workload_purpose purpose)
{
	struct image_workloads *w = workloads_of(i);
	struct workload_entry *e = w ? workload_find(w, key) : NULL;

	if (w && !e)
		e = workload_add(w, key);
	if (!e || !workload_is_due(w, e, purpose, clock_now_ns()))
		return e;
	return search_start(t, i, e, purpose, NULL) < 0 ? NULL : e;
}

typedef bool workload_test(const struct workload_entry *e);

static bool workload_is_settled(const struct workload_entry *e)
{
	return e->phase == WORKLOAD_KNOWN;
}

/* Wait until the test `so` is true: 0, or -ETIMEDOUT. */
static int wait_until(struct trace_lookup *t, struct workload_entry *e,
		      workload_test *so)
{
	int64_t deadline = clock_now_ns() + t->wait_ns;
	bool is_early = true;

	e->waiters++;
	while (is_early && !so(e))
		is_early = cond_wait_until(&t->changed, &t->lock, deadline);
	e->waiters--;
	return so(e) ? 0 : -ETIMEDOUT;
}

/* Make a workload that takes the result of the early search, unless another thread has begun a
 * search. */
static bool adopt_early(struct trace_lookup *t, struct image *i,
			struct trace_early *early)
{
	struct image_workloads *w = workloads_of(i);
	struct workload_entry *e =
		!w || workload_find(w, NULL) ? NULL : workload_add(w, NULL);

	return e && search_start(t, i, e, limit_purpose(t, WORKLOAD_TO_FETCH),
				 early) == 0;
}

void trace_lookup_prepare(struct trace_lookup *t, struct image *i,
			  struct trace_early *early)
{
	bool adopted;

	pthread_mutex_lock(&t->lock);
	adopted = early && adopt_early(t, i, early);
	if (!adopted)
		(void)ask_stores(t, i, NULL,
				 limit_purpose(t, WORKLOAD_TO_FETCH));
	pthread_mutex_unlock(&t->lock);
	if (!adopted)
		trace_early_drop(early);
}

/* Ask the stores, and wait for the answer; `*ret` is set with 0.  Lock held. */
static int ask_and_wait(struct trace_lookup *t, struct image *i,
			const char *key, enum workload_purpose purpose,
			struct workload_entry **ret)
{
	struct workload_entry *e;
	int rc, tries = 0;

	do {
		*ret = e = ask_stores(t, i, key, purpose);
		if (e && purpose > e->most)
			e->most = purpose;
		rc = e ? wait_until(t, e, workload_is_settled) : -EAGAIN;
		/* Search again if the search that was under way was only for looking. */
	} while (rc == 0 && purpose != WORKLOAD_TO_LOOK &&
		 !workload_is_hot(i->workloads, e) && ++tries < 2);
	return rc;
}

/* The workload's key as far as it is known before a search. */
static const char *known_key(const struct image *i, const char *workload)
{
	if (!workload && image_is_environment(i))
		return ENVIRONMENT_WORKLOAD;
	return workload ? workload : "";
}

static int find_answer(struct trace_lookup *t, struct image *i,
		       const char *workload, enum workload_purpose purpose,
		       struct trace_answer *ret, struct error *err)
{
	struct workload_entry *e;
	int rc;

	*ret = (struct trace_answer){ .wanted = true };
	snprintf(ret->workload, sizeof(ret->workload), "%s",
		 known_key(i, workload));
	pthread_mutex_lock(&t->lock);
	rc = ask_and_wait(t, i, workload, limit_purpose(t, purpose), &e);
	if (rc == 0) {
		ret->found = e->found;
		ret->match = e->match;
		ret->wanted = e->wanted;
		ret->length_ms = e->length_ms;
		if (e->key)
			snprintf(ret->workload, sizeof(ret->workload), "%s",
				 e->key);
	}
	pthread_mutex_unlock(&t->lock);
	if (rc == -EAGAIN)
		return error_set(err, EAGAIN, "too many searches at once");
	return rc < 0 ? error_set(err, ETIMEDOUT, "no answer within %lld ms",
				  (long long)(t->wait_ns / NS_PER_MS))
		      : 0;
}

int trace_lookup_find(struct trace_lookup *t, struct image *i,
		      const char *workload, struct trace_answer *ret,
		      struct error *err)
{
	return find_answer(t, i, workload, WORKLOAD_TO_START, ret, err);
}

int trace_lookup_peek(struct trace_lookup *t, struct image *i,
		      const char *workload, struct trace_answer *ret,
		      struct error *err)
{
	return find_answer(t, i, workload, WORKLOAD_TO_LOOK, ret, err);
}

void trace_lookup_await_hot(struct trace_lookup *t, struct image *i)
{
	struct trace_answer answer;
	struct error why = ERROR_INIT;

	if (find_answer(t, i, NULL, WORKLOAD_TO_FETCH, &answer, &why) < 0)
		log_warning("traces",
			    "no hot set yet image=%.12s reason=\"%s\"", i->hex,
			    why.msg);
}

bool trace_lookup_has_any(struct trace_lookup *t, struct image *i)
{
	enum workload_purpose purpose = limit_purpose(t, WORKLOAD_TO_START);
	struct workload_entry *e;
	bool any = false;

	pthread_mutex_lock(&t->lock);
	e = ask_stores(t, i, NULL, purpose);
	if (e) {
		e->most = purpose > e->most ? purpose : e->most;
		(void)wait_until(t, e, workload_has_answer);
	}
	for (e = i->workloads ? i->workloads->first : NULL; e && !any;
	     e = e->next)
		any = workload_has_answer(e) && e->found &&
		      e->match != TRACE_MATCH_PREDICTED;
	pthread_mutex_unlock(&t->lock);
	return any;
}

void trace_lookup_get_stats(struct trace_lookup *t,
			    struct trace_lookup_stats *ret)
{
	size_t k;

	pthread_mutex_lock(&t->lock);
	*ret = t->stats;
	pthread_mutex_unlock(&t->lock);
	for (k = 0; k < ARRAY_SIZE(t->sinks); k++)
		ret->waiting += t->sinks[k].spool
					? spool_waiting(t->sinks[k].spool)
					: 0;
}

/* --------------------------------------------------------- start and end --- */

static int open_stores(struct trace_lookup *t, struct error *err)
{
	const struct node_config *cfg = t->cfg;
	char host[256] = "";
	struct trace_service_config service = {
		.url = cfg->service,
		.token_file = cfg->service_token_file,
		.ca_file = cfg->service_ca_file,
		.plain_token =
			cfg->service && node_config_is_plain(cfg, cfg->service),
		.cert_file = cfg->p2p_cert_file,
		.key_file = cfg->p2p_key_file,
		.node = cfg->node_name ? cfg->node_name : host,
		.timeout_ms = (uint32_t)(NODE_TRACE_LOOKUP_NS / NS_PER_MS),
	};
	AUTO_FREE char *dir = NULL;
	int rc;

	if (gethostname(host, sizeof(host) - 1) < 0)
		return error_errno(err, errno, "hostname");
	if (asprintf(&dir, "%s/traces/store", cfg->root) < 0) {
		dir = NULL;
		return error_nomem(err);
	}
	rc = trace_folder_new(dir, NODE_TRACES_MAX, &t->folder, err);
	if (rc == 0 && cfg->service)
		rc = trace_service_new(&service, &t->sender, err);
	/* Half of the time, so that when the service hangs, other stores can still be asked. */
	service.timeout_ms = service.timeout_ms / 2;
	if (rc == 0 && cfg->service)
		rc = trace_service_new(&service, &t->service, err);
	if (rc == 0 && cfg->service)
		rc = trace_send_open_sink(t, SINK_SERVICE, err);
	if (rc == 0 && strcmp(cfg->trace_oci, "push") == 0)
		rc = trace_send_open_sink(t, SINK_OCI, err);
	return rc;
}

int trace_lookup_open(const struct node_config *cfg, struct origins *origins,
		      const atomic_bool *is_ending,
		      const struct trace_user *user, struct trace_lookup **ret,
		      struct error *err)
{
	struct trace_lookup *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return error_nomem(err);
	t->cfg = cfg;
	t->origins = origins;
	t->is_ending = is_ending;
	t->user = *user;
	t->wait_ns = NODE_TRACE_LOOKUP_NS;
	pthread_mutex_init(&t->lock, NULL);
	cond_init(&t->changed);
	rc = open_stores(t, err);
	if (rc == 0)
		rc = pool_new(NULL, THREADS, QUEUE_MAX, &t->pool, err);
	if (rc == 0)
		rc = pool_new(NULL, STRANGERS, QUEUE_MAX, &t->strangers, err);
	if (rc < 0) {
		trace_lookup_close(t);
		return error_wrap(err, rc, "traces");
	}
	*ret = t;
	return 0;
}

void trace_lookup_close(struct trace_lookup *t)
{
	size_t k;

	if (!t)
		return;
	pool_free(t->pool);
	pool_free(t->strangers);
	for (k = 0; k < ARRAY_SIZE(t->sinks); k++)
		spool_close(t->sinks[k].spool);
	trace_store_free(t->service);
	trace_store_free(t->sender);
	trace_store_free(t->folder);
	pthread_cond_destroy(&t->changed);
	pthread_mutex_destroy(&t->lock);
	free(t);
}
