// SPDX-License-Identifier: Apache-2.0
/* Shared by the files that search and send traces. */
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
	/* recordings that wait for this store; NULL: it gets none */
	struct spool *spool;
	enum spool_target target;
	int (*send)(void *arg, const struct trace *t, const char *note,
		    struct error *err);
	struct work work;
	bool busy; /* under the lock, as the rest */
	int64_t next_at, pause;
};

struct trace_lookup {
	const struct node_config *cfg;
	struct origins *origins;
	const atomic_bool *is_ending;
	struct trace_user user;
	struct pool *pool;
	/* searches in registries that are not known to be fast */
	struct pool *strangers;
	/* The service, once for searches and once for recordings; NULL: there is none. */
	struct trace_store *service, *sender;
	struct trace_store *folder;
	struct sink sinks[SINKS];
	pthread_mutex_t lock; /* protects the rest, and workloads of images */
	pthread_cond_t changed;
	int64_t service_down_until;
	struct trace_hosts hosts;
	struct trace_lookup_stats stats;
	/* longest time that a start waits for an answer; never changes */
	int64_t wait_ns;
};

/* A search, and the nearest trace that was found. */
struct search {
	struct lookup_place place; /* borrowed, as are the other members */
	const char *workload;
	/* the nearest trace, the caller's; trace NULL: none */
	struct trace_found best;
};
/* trace_search.c: search; blocks, without the lock. */
void search_run(struct trace_lookup *t, struct search *s);
/* The threads that may search at `host`.  Lock held. */
struct pool *search_pool(struct trace_lookup *t, const char *host);

/* Run `w` after the early search, on its thread; false: the search is done already.  Lock held. */
bool trace_early_then(struct trace_early *e, struct work *w);
/* Take the result of a finished early search; returns the workload's key; the caller frees both. */
char *trace_early_take(struct trace_early *e, struct trace_found *ret);

/* The store of OCI artifacts in the repository of an image. */
struct oci_traces {
	struct origin *origin;
	struct store_lease *lease;
	struct trace_store *store;
};

/* Open the store of OCI artifacts.  Its requests end when `pace` says so; NULL: when bootseerd
 * ends. */
int oci_traces_begin(struct origins *origins, const char *host,
		     const char *repo, bool plain_http, struct pace *pace,
		     struct oci_traces *ret, struct error *err) MUST_CHECK;
void oci_traces_end(struct oci_traces *o);

/* trace_send.c: open a store to which recordings are sent. */
int trace_send_open_sink(struct trace_lookup *t, enum sink_kind kind,
			 struct error *err) MUST_CHECK;

#endif
