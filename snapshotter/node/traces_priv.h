// SPDX-License-Identifier: Apache-2.0
/* What the files of the traces share. */
#ifndef BOOTSEER_NODE_TRACES_PRIV_H
#define BOOTSEER_NODE_TRACES_PRIV_H

#include "common/pool.h"
#include "snapshotter/node/spool.h"
#include "snapshotter/node/traces.h"

#define NS_PER_S INT64_C(1000000000)

enum sink_kind { SINK_SERVICE, SINK_OCI, SINKS };

/* A store that recordings are sent to. */
struct sink {
	struct traces *traces;
	struct spool *spool; /* NULL: nothing is sent there */
	int (*send)(void *arg, const struct trace *t, const char *note,
		    struct error *err);
	struct work work;
	bool busy; /* the lock, as the rest */
	int64_t next_at, pause;
};

struct traces {
	struct node *node;
	struct pool *pool;
	/* The service for searches and for recordings; NULL: there is none. */
	struct trace_store *service, *sender;
	struct trace_store *folder;
	struct sink sinks[SINKS];
	pthread_mutex_t lock; /* protects the rest, and the plans of images */
	pthread_cond_t changed;
	int64_t service_down_until;
	struct traces_stats stats;
};

/* One search: for what, and the nearest that was found. */
struct search {
	struct trace_place place; /* borrowed, as the rest */
	const char *workload;
	struct trace_found best; /* the caller's; trace NULL: none */
};
/* traces_search.c: blocks, without the lock. */
void search_run(struct traces *t, struct search *s);

/* Lock held: have `w` run after it, on its thread; false: it is done. */
bool early_then(struct traces_early *e, struct work *w);
/* When it is done: what was found, and the workload's key; the caller's. */
char *early_take(struct traces_early *e, struct trace_found *ret);

/* The store of OCI artifacts in the repository of an image. */
struct oci_traces {
	struct origin *origin;
	struct store_lease *lease;
	struct trace_store *store;
};

int oci_traces_begin(struct node *n, const char *host, const char *repo,
		     bool plain_http, struct oci_traces *ret,
		     struct error *err) MUST_CHECK;
void oci_traces_end(struct oci_traces *o);

/* traces_send.c: have recordings sent there, too. */
int traces_open_sink(struct traces *t, enum sink_kind kind,
		     struct error *err) MUST_CHECK;

/* traces.c: what was found of the image may be less than what is there now. */
void traces_forget_plans(struct traces *t, struct image *i);

#endif
