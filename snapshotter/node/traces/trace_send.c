// SPDX-License-Identifier: Apache-2.0
/*
 * Keeping recordings: in the folder at once, and for the service and the image's
 * repository in a spool each, which is emptied when they can be reached.
 */
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/registry_host.h"
#include "snapshotter/node/images/image_index.h"
#include "snapshotter/node/remote_call.h"
#include "snapshotter/node/traces/trace_lookup_priv.h"
#include "snapshotter/node/traces/workload.h"

#define DRAIN_MIN_NS (5 * NS_PER_S)
#define DRAIN_MAX_NS (600 * NS_PER_S)
/* Longest time to send a recording to a registry: recordings for other registries wait for it. */
#define SEND_NS (120 * NS_PER_S)
#define NOTE_PLAIN "plain"
#define NOTE_TLS "tls"

void oci_traces_end(struct oci_traces *o)
{
	trace_store_free(o->store);
	store_lease_end(o->lease);
	origin_put(o->origin);
}

int oci_traces_begin(struct origins *origins, const char *host,
		     const char *repo, bool plain_http, struct pace *pace,
		     struct oci_traces *ret, struct error *err)
{
	int rc;

	*ret = (struct oci_traces){ .origin = NULL };
	rc = origin_get(origins, host, repo, plain_http, &ret->origin, err);
	if (rc == 0)
		rc = origin_lease_paced(ret->origin, pace, &ret->lease, err);
	if (rc == 0)
		rc = trace_oci_new(ret->lease->store, &ret->store, err);
	if (rc < 0)
		oci_traces_end(ret);
	return rc;
}

static int send_service(void *arg, const struct trace *trace, const char *note,
			struct error *err)
{
	struct trace_lookup *t = arg;
	int rc = trace_store_put(t->sender, trace, err);

	(void)note;
	/* Waiting does not give a node the right to write to an environment's store.  So the
	 * recording is not sent again, and delays no other one; the folder has it. */
	if (rc == -EACCES && registry_host_is_store(trace->info.repo))
		rc = error_wrap(err, -ENOTSUP, "kept on this node alone");
	return rc;
}

static int send_oci(void *arg, const struct trace *trace, const char *note,
		    struct error *err)
{
	struct trace_lookup *t = arg;
	const char *slash = strchr(trace->info.repo, '/');
	AUTO_FREE char *host = NULL;
	struct remote_call call;
	struct oci_traces o;
	int rc;

	if (!slash)
		return error_set(err, EINVAL, "trace without a repository");
	host = strndup(trace->info.repo, (size_t)(slash - trace->info.repo));
	if (!host)
		return error_nomem(err);
	remote_call_init(&call, t->is_ending, NULL, clock_now_ns(), SEND_NS);
	rc = oci_traces_begin(t->origins, host, slash + 1,
			      strcmp(note, NOTE_PLAIN) == 0, &call.pace, &o,
			      err);
	if (rc < 0)
		return rc;
	rc = trace_store_put(o.store, trace, err);
	oci_traces_end(&o);
	if (rc == -ECANCELED && !atomic_load(t->is_ending))
		rc = error_set(err, ETIMEDOUT,
			       "registry %.100s took over %lld s for a "
			       "recording",
			       host, (long long)(SEND_NS / NS_PER_S));
	return rc;
}

static int send_one(void *arg, const struct trace *trace, const char *note,
		    struct error *err)
{
	struct sink *s = arg;
	int rc = s->send(s->traces, trace, note, err);

	if (rc == 0) {
		pthread_mutex_lock(&s->traces->lock);
		s->traces->stats.sent++;
		pthread_mutex_unlock(&s->traces->lock);
	}
	return rc;
}

static void drain_run(struct work *w)
{
	struct sink *s = container_of(w, struct sink, work);
	struct error err = ERROR_INIT;
	int rc = spool_drain(s->spool, s->target, send_one, s, &err);

	if (rc < 0)
		log_warning("traces",
			    "not sent waiting=%zu reason=\"%s\" action=\"tried "
			    "again later\"",
			    spool_waiting(s->spool), err.msg);
	pthread_mutex_lock(&s->traces->lock);
	if (rc == 0)
		s->pause = DRAIN_MIN_NS;
	else if (s->pause < DRAIN_MAX_NS)
		s->pause *= 2;
	s->next_at = clock_now_ns() + s->pause;
	s->busy = false;
	pthread_mutex_unlock(&s->traces->lock);
}

/* Begin to send the waiting recordings.  Lock held. */
static void drain_start(struct trace_lookup *t, struct sink *s)
{
	if (s->busy)
		return;
	s->work.run = drain_run;
	s->busy = pool_submit(t->pool, &s->work) == 0;
}

void trace_send_due(struct trace_lookup *t)
{
	size_t k;

	for (k = 0; k < ARRAY_SIZE(t->sinks); k++) {
		struct sink *s = &t->sinks[k];

		if (!s->spool || spool_waiting(s->spool) == 0)
			continue;
		pthread_mutex_lock(&t->lock);
		if (clock_now_ns() >= s->next_at)
			drain_start(t, s);
		pthread_mutex_unlock(&t->lock);
	}
}

/* Forget what is known of the image's traces, since the stores have a new one. */
static void forget_workload(struct trace_lookup *t, struct image *i)
{
	pthread_mutex_lock(&t->lock);
	if (i->workloads)
		workload_forget(i->workloads);
	pthread_mutex_unlock(&t->lock);
}

int trace_keep(struct trace_lookup *t, struct image *i,
	       const struct trace *trace, struct error *err)
{
	const char *note = i->state.plain_http ? NOTE_PLAIN : NOTE_TLS;
	int rc = trace_store_put(t->folder, trace, err);
	size_t k;

	for (k = 0; k < ARRAY_SIZE(t->sinks); k++) {
		struct sink *s = &t->sinks[k];
		struct error why = ERROR_INIT;

		/* An environment's store takes blobs of nodes only, and no traces. */
		if (!s->spool || (k == SINK_OCI && image_is_environment(i)))
			continue;
		if (spool_add(s->spool, trace, note, &why) < 0)
			log_warning("traces", "spool reason=\"%s\"", why.msg);
		pthread_mutex_lock(&t->lock);
		/* While the store is down, do not try it for each new trace. */
		if (s->pause <= DRAIN_MIN_NS)
			drain_start(t, s);
		pthread_mutex_unlock(&t->lock);
	}
	forget_workload(t, i);
	return rc;
}

static const struct {
	const char *name;
	enum spool_target target;
	int (*send)(void *arg, const struct trace *t, const char *note,
		    struct error *err);
} kinds[SINKS] = {
	[SINK_SERVICE] = { "service", SPOOL_TO_ONE, send_service },
	[SINK_OCI] = { "oci", SPOOL_TO_REGISTRY, send_oci },
};

int trace_send_open_sink(struct trace_lookup *t, enum sink_kind kind,
			 struct error *err)
{
	struct sink *s = &t->sinks[kind];
	AUTO_FREE char *dir = NULL;

	s->traces = t;
	s->send = kinds[kind].send;
	s->target = kinds[kind].target;
	s->pause = DRAIN_MIN_NS;
	if (asprintf(&dir, "%s/traces/spool/%s", t->cfg->root,
		     kinds[kind].name) < 0) {
		dir = NULL;
		return error_nomem(err);
	}
	return spool_open(dir, &s->spool, err);
}
