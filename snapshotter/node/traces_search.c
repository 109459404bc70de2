// SPDX-License-Identifier: Apache-2.0
/*
 * One search for a trace: the service, the image's repository and the folder are
 * asked in this order, and the nearest trace is taken.  It may begin while the
 * image's metadata is on its way, since only what the trace names needs that.
 */
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "snapshotter/node/traces_priv.h"
#include "snapshotter/node/view.h"

/* A store that failed is left alone for so long. */
#define DOWN_NS (10 * NS_PER_S)

/* Keep the nearest. */
static void offer(struct search *s, struct trace_found *f)
{
	if (!s->best.trace || f->match < s->best.match) {
		trace_free(s->best.trace);
		s->best = *f;
	} else {
		trace_free(f->trace);
	}
}

/* True when nothing nearer can be found. */
static bool ask(struct traces *t, struct trace_store *store, struct search *s)
{
	const struct trace_query q = {
		.image = s->place.image,
		.repo = s->place.name,
		.workload = s->workload,
	};
	struct trace_found f = { .trace = NULL };
	struct error err = ERROR_INIT;
	int rc = trace_store_get(store, &q, &f, &err);

	if (rc == 0) {
		offer(s, &f);
		return s->best.match == TRACE_MATCH_OWN;
	}
	if (rc == -ENOENT)
		return false;
	log_warning("traces",
		    "store=%s reason=\"%s\" action=\"looked elsewhere\"",
		    store->ops->name, err.msg);
	pthread_mutex_lock(&t->lock);
	t->stats.failed++;
	if (store == t->service && rc != -EBADMSG)
		t->service_down_until = clock_now_ns() + DOWN_NS;
	pthread_mutex_unlock(&t->lock);
	return false;
}

static bool ask_service(struct traces *t, struct search *s)
{
	bool down;

	if (!t->service)
		return false;
	pthread_mutex_lock(&t->lock);
	down = clock_now_ns() < t->service_down_until;
	pthread_mutex_unlock(&t->lock);
	return !down && ask(t, t->service, s);
}

static bool ask_oci(struct traces *t, struct search *s)
{
	struct oci_traces o;
	bool done;

	if (strcmp(t->node->cfg->trace_oci, "no") == 0 ||
	    oci_traces_begin(t->node, s->place.host, s->place.repo,
			     s->place.plain_http, &o, NULL) < 0)
		return false;
	done = ask(t, o.store, s);
	oci_traces_end(&o);
	return done;
}

void search_run(struct traces *t, struct search *s)
{
	if (!ask_service(t, s) && !ask_oci(t, s))
		(void)ask(t, t->folder, s);
}

/* ------------------------------------------------------------------- early --- */

struct traces_early {
	struct work work;
	struct traces *t;
	char *host, *repo, *name, *workload; /* of the search */
	struct search s;
	/* traces.lock */
	bool done, dropped;
	struct work *then; /* to be run when it is done */
};

static void early_free(struct traces_early *e)
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
	struct traces_early *e = container_of(w, struct traces_early, work);
	struct traces *t = e->t;
	struct work *then;
	bool dropped;

	search_run(t, &e->s);
	pthread_mutex_lock(&t->lock);
	e->done = true;
	then = e->then;
	dropped = e->dropped;
	pthread_mutex_unlock(&t->lock);
	if (dropped)
		early_free(e);
	else if (then)
		then->run(then); /* which drops it */
}

struct traces_early *traces_begin(struct traces *t, const struct trace_place *p,
				  const struct buf *config)
{
	struct traces_early *e = calloc(1, sizeof(*e));

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
	if (!e->host || !e->repo || !e->name || !e->workload ||
	    pool_submit(t->pool, &e->work) < 0) {
		early_free(e);
		return NULL;
	}
	return e;
}

void traces_drop(struct traces_early *e)
{
	struct traces *t;
	bool done;

	if (!e)
		return;
	t = e->t;
	pthread_mutex_lock(&t->lock);
	e->dropped = true;
	done = e->done;
	pthread_mutex_unlock(&t->lock);
	if (done)
		early_free(e);
}

bool early_then(struct traces_early *e, struct work *w)
{
	if (e->done)
		return false;
	e->then = w;
	return true;
}

char *early_take(struct traces_early *e, struct trace_found *ret)
{
	*ret = e->s.best;
	e->s.best.trace = NULL;
	return steal_ptr(&e->workload);
}
