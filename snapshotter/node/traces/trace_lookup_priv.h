// SPDX-License-Identifier: Apache-2.0
/* Parts that the files of the traces share. */
#ifndef BOOTSEER_NODE_TRACE_LOOKUP_PRIV_H
#define BOOTSEER_NODE_TRACE_LOOKUP_PRIV_H

#include "net/pool.h"
#include "snapshotter/node/images/origin.h"
#include "snapshotter/node/traces/spool.h"
#include "snapshotter/node/traces/trace_hosts.h"
#include "snapshotter/node/traces/trace_lookup.h"

enum sink_kind { SINK_SERVICE, SINK_OCI, SINKS };

/* A store that recordings are sent to. */
struct sink {
	struct trace_lookup *traces;
	struct spool *spool; /* NULL: nothing is sent there */
	enum spool_target target;
	int (*send)(void *arg, const struct trace *t, const char *note,
		    struct error *err);
	struct work work;
	bool busy; /* the lock, as the rest */
	int64_t next_at, pause;
};

struct trace_lookup {
	const struct node_config *cfg;
	struct origins *origins;
	const atomic_bool *is_ending;
	struct trace_user user;
	struct pool *pool;
	struct pool *strangers; /* searches in registries that may be slow */
	/* The service for searches and for recordings; NULL: there is none. */
	struct trace_store *service, *sender;
	struct trace_store *folder;
	struct sink sinks[SINKS];
	pthread_mutex_t lock; /* protects the rest, and workloads of images */
	pthread_cond_t changed;
	int64_t service_down_until;
	struct trace_hosts hosts;
	struct trace_lookup_stats stats;
	int64_t wait_ns; /* of whoever needs an answer; never changed */
};

/* A search, and the nearest trace that was found. */
struct search {
	struct lookup_place place; /* borrowed, as the rest */
	const char *workload;
	struct trace_found best; /* the caller's; trace NULL: none */
};
/* trace_search.c: blocks, without the lock. */
void search_run(struct trace_lookup *t, struct search *s);
/* Lock held: the threads that may search in `host`. */
struct pool *search_pool(struct trace_lookup *t, const char *host);

/* Lock held: have `w` run after it, on its thread; false: it is done. */
bool trace_early_then(struct trace_early *e, struct work *w);
/* When it is done: what was found, and the workload's key; the caller's. */
char *trace_early_take(struct trace_early *e, struct trace_found *ret);

/* The store of OCI artifacts in the repository of an image. */
struct oci_traces {
	struct origin *origin;
	struct store_lease *lease;
	struct trace_store *store;
};

/* Its requests end when `pace` says so; NULL: when bootseerd ends. */
int oci_traces_begin(struct origins *origins, const char *host,
		     const char *repo, bool plain_http, struct pace *pace,
		     struct oci_traces *ret, struct error *err) MUST_CHECK;
void oci_traces_end(struct oci_traces *o);

/* trace_send.c: have recordings sent there, too. */
int trace_send_open_sink(struct trace_lookup *t, enum sink_kind kind,
			 struct error *err) MUST_CHECK;

#endif
