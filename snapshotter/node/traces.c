// SPDX-License-Identifier: Apache-2.0
/*
 * What is known of the workloads of an image.  Searches (traces_search.c) run on
 * threads of their own: a start waits for one, but never longer than it was told,
 * and no store that hangs keeps a container from starting.
 */
#include "snapshotter/node/traces.h"

#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/pool.h"
#include "snapshotter/node/prefetch.h"
#include "snapshotter/node/traces_priv.h"
#include "snapshotter/node/view.h"

#define THREADS 4
#define QUEUE_MAX 256
#define PLANS_MAX 16 /* workloads remembered of one image */
/* For how long an answer is used: other nodes record, too. */
#define FOUND_TTL_NS (300 * NS_PER_S)
#define NONE_TTL_NS (30 * NS_PER_S)

struct plan {
	struct plan *next;
	char *key; /* NULL: of the image's config, which is not known yet */
	bool is_default;
	bool asking;
	bool answered;  /* found, match and wanted hold: before `asking` ends,
			 * since setting up the prefetch takes a while */
	bool for_start; /* a container waits for it, or did */
	bool again;     /* when the search ends its answer is old already */
	unsigned int waiters;
	int64_t expires;
	bool found, wanted;
	enum trace_match match;
	uint32_t length_ms;
};

/* A search under way. */
struct lookup {
	struct work work;
	struct traces *t;
	struct image *image; /* a use */
	struct plan *plan;
	bool only_look;             /* nothing is prefetched */
	struct traces_early *early; /* has searched already; or NULL */
};

static void plan_free(struct plan *p)
{
	free(p->key);
	free(p);
}

void plans_free(struct plan *list)
{
	struct plan *next;

	for (; list; list = next) {
		next = list->next;
		plan_free(list);
	}
}

/* ------------------------------------------------------------------ asking --- */

/* Have what the trace names on the node, and at a start the rest, too. */
static void prefetch(struct traces *t, struct image *i,
		     const struct trace *trace, bool for_start)
{
	struct prefetch_wanted want = node_prefetch_wanted(t->node);
	struct hot_list hot = { .n = 0 };
	struct error err = ERROR_INIT;
	struct view v = VIEW_INIT;
	int rc;

	if (!trace || !want.hot)
		return;
	rc = view_open(i, &v, &err);
	if (rc == 0)
		rc = hot_list_make(trace, &v.map, v.files, &hot, &err);
	view_close(&v);
	if (rc == 0) {
		log_info("traces",
			 "hot set image=%.12s blocks=%zu bytes=%llu "
			 "by_digest=%zu by_path=%zu lost=%zu",
			 i->hex, hot.n, (unsigned long long)hot.bytes,
			 hot.by_digest, hot.by_path, hot.lost);
		rc = node_prefetch_hot(t->node, i, &hot, for_start && want.rest,
				       &err);
	}
	if (rc < 0)
		log_warning("traces", "no prefetch image=%.12s reason=\"%s\"",
			    i->hex, err.msg);
}

/* The key of a plan without one, from the image's config. */
static char *config_key(struct traces *t, struct image *i)
{
	struct error err = ERROR_INIT;
	AUTO_BUF config = BUF_INIT;

	if (image_config(t->node, i, &config, &err) < 0) {
		log_warning("traces", "workload of image=%.12s reason=\"%s\"",
			    i->hex, err.msg);
		return NULL;
	}
	return image_config_key(config.data, config.len);
}

/* Lock held. */
static void plan_answer(struct traces *t, struct plan *p,
			const struct trace_found *best)
{
	p->found = best->trace != NULL;
	p->match = best->match;
	p->wanted = !p->found || best->wanted;
	p->length_ms = 0;
	if (p->found)
		p->length_ms = best->trace->info.ready_ms
				       ? best->trace->info.ready_ms
				       : best->trace->info.window_ms;
	p->answered = true;
	pthread_cond_broadcast(&t->changed);
}

static void search(struct lookup *l, const char *key, struct trace_found *ret)
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

/* Have what the answer is for under way. */
static void use(struct lookup *l, const struct trace_found *best)
{
	struct traces *t = l->t;
	bool for_start;

	/* A mount waits for the answer, and the prefetch for the mount. */
	pthread_mutex_lock(&t->lock);
	plan_answer(t, l->plan, best);
	for_start = l->plan->for_start;
	pthread_mutex_unlock(&t->lock);
	if (!l->only_look)
		prefetch(t, l->image, best->trace, for_start);
}

static void lookup_run(struct work *w)
{
	struct lookup *l = container_of(w, struct lookup, work);
	struct traces *t = l->t;
	struct plan *p = l->plan;
	struct trace_found best = { .trace = NULL };
	AUTO_FREE char *found_key = NULL;

	/* The key of a plan that is being asked for is changed by us alone. */
	if (l->early)
		found_key = early_take(l->early, &best);
	else if (!p->key)
		found_key = config_key(t, l->image);
	if (!l->early && (p->key || found_key))
		search(l, p->key ? p->key : found_key, &best);
	use(l, &best);
	pthread_mutex_lock(&t->lock);
	if (!p->key)
		p->key = steal_ptr(&found_key);
	p->asking = false;
	plan_answer(t, p, &best);
	p->expires = p->again ? 0
			      : clock_now_ns() +
					(p->found ? FOUND_TTL_NS : NONE_TTL_NS);
	p->again = false;
	if (p->found && !l->only_look)
		l->image->hot_plan = p;
	t->stats.lookups++;
	t->stats.found += p->found;
	pthread_mutex_unlock(&t->lock);
	trace_free(best.trace);
	traces_drop(l->early);
	images_put(l->image);
	free(l);
}

/* Lock held, as for all here.  Takes `early` (or NULL) when it succeeds. */
static int lookup_start(struct traces *t, struct image *i, struct plan *p,
			bool only_look, struct traces_early *early)
{
	struct lookup *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->t = t;
	l->plan = p;
	l->only_look = only_look;
	l->early = early;
	l->image = images_get(i->all, &i->id);
	l->work.run = lookup_run;
	/* Removed meanwhile, or another one of the same name. */
	if (l->image != i || (!(early && early_then(early, &l->work)) &&
			      pool_submit(t->pool, &l->work) < 0)) {
		images_put(l->image);
		free(l);
		return -EAGAIN;
	}
	p->asking = true;
	p->answered = false;
	return 0;
}

/* ------------------------------------------------------------------- plans --- */

/* Lock held, as for all here. */
static struct plan *plan_find(struct image *i, const char *key)
{
	struct plan *p;

	for (p = i->plans; p; p = p->next) {
		if (key ? p->key && strcmp(p->key, key) == 0 : p->is_default)
			return p;
	}
	return NULL;
}

/* The last one that nobody uses makes room. */
static bool make_room(struct image *i)
{
	struct plan **at, **last = NULL;
	struct plan *dead;
	size_t n = 0;

	for (at = &i->plans; *at; at = &(*at)->next) {
		n++;
		if (!(*at)->asking && (*at)->waiters == 0)
			last = at;
	}
	if (n < PLANS_MAX)
		return true;
	if (!last)
		return false;
	dead = *last;
	*last = dead->next;
	if (i->hot_plan == dead)
		i->hot_plan = NULL;
	plan_free(dead);
	return true;
}

static struct plan *plan_new(struct image *i, const char *key)
{
	struct plan *p = make_room(i) ? calloc(1, sizeof(*p)) : NULL;

	if (!p)
		return NULL;
	p->is_default = !key;
	p->key = key ? strdup(key) : NULL;
	if (key && !p->key) {
		free(p);
		return NULL;
	}
	p->next = i->plans;
	i->plans = p;
	return p;
}

/* Is its hot set the one that is prefetched? */
static bool is_in_use(struct traces *t, struct image *i, struct plan *p)
{
	return !p->found || i->hot_plan == p ||
	       !node_prefetch_wanted(t->node).hot;
}

/* A plan whose answer is there or under way; NULL: there is no room. */
static struct plan *plan_get(struct traces *t, struct image *i, const char *key,
			     bool only_look)
{
	struct plan *p = plan_find(i, key);

	if (!p)
		p = plan_new(i, key);
	if (!p)
		return NULL;
	if (p->asking ||
	    (clock_now_ns() < p->expires && (only_look || is_in_use(t, i, p))))
		return p;
	return lookup_start(t, i, p, only_look, NULL) < 0 ? NULL : p;
}

/* Until the answer is there, or `all` that follows from it: 0, or -ETIMEDOUT. */
static int plan_wait(struct traces *t, struct plan *p, bool all)
{
	int64_t deadline = clock_now_ns() + t->node->cfg->trace_lookup_timeout;
	struct timespec ts = { .tv_sec = deadline / NS_PER_S,
			       .tv_nsec = deadline % NS_PER_S };
	int rc = 0;

	p->waiters++;
	while (rc == 0 && (all ? p->asking : !p->answered))
		rc = -pthread_cond_timedwait(&t->changed, &t->lock, &ts);
	p->waiters--;
	return (all ? p->asking : !p->answered) ? rc : 0;
}

/* A plan for what is being searched already, unless somebody was faster. */
static bool plan_adopt(struct traces *t, struct image *i,
		       struct traces_early *early)
{
	struct plan *p = plan_find(i, NULL) ? NULL : plan_new(i, NULL);

	return p && lookup_start(t, i, p, false, early) == 0;
}

void traces_prepare(struct traces *t, struct image *i,
		    struct traces_early *early)
{
	bool adopted;

	pthread_mutex_lock(&t->lock);
	adopted = early && plan_adopt(t, i, early);
	if (!adopted)
		(void)plan_get(t, i, NULL, false);
	pthread_mutex_unlock(&t->lock);
	if (!adopted)
		traces_drop(early);
}

enum purpose {
	FOR_LOOKING, /* nothing is prefetched */
	FOR_HOT,     /* the hot set is */
	FOR_START,   /* and then the rest */
};

/* Lock held. */
static int plan_ask(struct traces *t, struct image *i, const char *key,
		    enum purpose purpose, struct plan **ret)
{
	bool only_look = purpose == FOR_LOOKING;
	struct plan *p;
	int rc, tries = 0;

	do {
		*ret = p = plan_get(t, i, key, only_look);
		if (p && purpose == FOR_START)
			p->for_start = true;
		rc = p ? plan_wait(t, p, true) : -EAGAIN;
		/* Again when it was one that only looked that had begun. */
	} while (rc == 0 && !only_look && !is_in_use(t, i, p) && ++tries < 2);
	return rc;
}

static int find(struct traces *t, struct image *i, const char *workload,
		enum purpose purpose, struct trace_answer *ret,
		struct error *err)
{
	struct plan *p;
	int rc;

	*ret = (struct trace_answer){ .wanted = true };
	snprintf(ret->workload, sizeof(ret->workload), "%s",
		 workload ? workload : "");
	pthread_mutex_lock(&t->lock);
	rc = plan_ask(t, i, workload, purpose, &p);
	if (rc == 0) {
		ret->found = p->found;
		ret->match = p->match;
		ret->wanted = p->wanted;
		ret->length_ms = p->length_ms;
		if (p->key)
			snprintf(ret->workload, sizeof(ret->workload), "%s",
				 p->key);
	}
	pthread_mutex_unlock(&t->lock);
	if (rc == -EAGAIN)
		return error_set(err, EAGAIN, "too many searches at once");
	return rc < 0 ? error_set(err, ETIMEDOUT,
				  "no answer within --trace-lookup-timeout")
		      : 0;
}

int traces_find(struct traces *t, struct image *i, const char *workload,
		struct trace_answer *ret, struct error *err)
{
	return find(t, i, workload, FOR_START, ret, err);
}

int traces_look_up(struct traces *t, struct image *i, const char *workload,
		   struct trace_answer *ret, struct error *err)
{
	return find(t, i, workload, FOR_LOOKING, ret, err);
}

void traces_await_hot(struct traces *t, struct image *i)
{
	struct trace_answer answer;
	struct error why = ERROR_INIT;

	if (find(t, i, NULL, FOR_HOT, &answer, &why) < 0)
		log_info("traces", "no hot set yet image=%.12s reason=\"%s\"",
			 i->hex, why.msg);
}

bool traces_has_any(struct traces *t, struct image *i)
{
	struct plan *p;
	bool any = false;

	pthread_mutex_lock(&t->lock);
	p = plan_get(t, i, NULL, false);
	if (p) {
		p->for_start = true;
		(void)plan_wait(t, p, false);
	}
	for (p = i->plans; p && !any; p = p->next)
		any = p->answered && p->found;
	pthread_mutex_unlock(&t->lock);
	return any;
}

/* What was found before may be less than what is there now. */
void traces_forget_plans(struct traces *t, struct image *i)
{
	struct plan *p;

	pthread_mutex_lock(&t->lock);
	for (p = i->plans; p; p = p->next) {
		p->expires = 0;
		p->again = p->asking;
	}
	pthread_mutex_unlock(&t->lock);
}

void traces_get_stats(struct traces *t, struct traces_stats *ret)
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

static int open_stores(struct traces *t, struct error *err)
{
	const struct node_config *cfg = t->node->cfg;
	char host[256] = "";
	struct trace_service_config service = {
		.url = cfg->trace_service,
		.token_file = cfg->trace_token_file,
		.ca_file = cfg->trace_ca_file,
		.node = cfg->node_name ? cfg->node_name : host,
		.timeout_ms = (uint32_t)(cfg->trace_lookup_timeout / 1000000),
	};
	AUTO_FREE char *dir = NULL;
	int rc;

	if (gethostname(host, sizeof(host) - 1) < 0)
		return error_set(err, errno, "hostname: %s", strerror(errno));
	if (asprintf(&dir, "%s/traces/store", cfg->root) < 0) {
		dir = NULL;
		return error_nomem(err);
	}
	rc = trace_folder_new(dir, cfg->trace_folder_max, &t->folder, err);
	if (rc == 0 && cfg->trace_service)
		rc = trace_service_new(&service, &t->sender, err);
	/* When it hangs there is time left to look elsewhere. */
	service.timeout_ms = service.timeout_ms / 2;
	if (rc == 0 && cfg->trace_service)
		rc = trace_service_new(&service, &t->service, err);
	if (rc == 0 && cfg->trace_service)
		rc = traces_open_sink(t, SINK_SERVICE, err);
	if (rc == 0 && strcmp(cfg->trace_oci, "push") == 0)
		rc = traces_open_sink(t, SINK_OCI, err);
	return rc;
}

int traces_open(struct node *n, struct traces **ret, struct error *err)
{
	struct traces *t = calloc(1, sizeof(*t));
	pthread_condattr_t attr;
	int rc;

	if (!t)
		return error_nomem(err);
	t->node = n;
	pthread_mutex_init(&t->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&t->changed, &attr);
	pthread_condattr_destroy(&attr);
	rc = open_stores(t, err);
	if (rc == 0)
		rc = pool_new(NULL, THREADS, QUEUE_MAX, &t->pool, err);
	if (rc < 0) {
		traces_close(t);
		return error_wrap(err, rc, "traces");
	}
	*ret = t;
	return 0;
}

void traces_close(struct traces *t)
{
	size_t k;

	if (!t)
		return;
	pool_free(t->pool);
	for (k = 0; k < ARRAY_SIZE(t->sinks); k++)
		spool_close(t->sinks[k].spool);
	trace_store_free(t->service);
	trace_store_free(t->sender);
	trace_store_free(t->folder);
	pthread_cond_destroy(&t->changed);
	pthread_mutex_destroy(&t->lock);
	free(t);
}
