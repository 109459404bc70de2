// SPDX-License-Identifier: Apache-2.0
/*
 * Where the traces of a node come from and go to: the service, OCI artifacts beside images, a
 * folder.  Answers are remembered per image and workload, so that a start rarely waits for it.
 * Any thread.
 */
#ifndef BOOTSEER_NODE_TRACE_LOOKUP_H
#define BOOTSEER_NODE_TRACE_LOOKUP_H

#include "recorder/recorder.h"
#include "snapshotter/node/images/images.h"
#include "snapshotter/node/images/origin.h"

/* The workload key of all readers of a mounted environment. */
#define ENVIRONMENT_WORKLOAD "environment"

struct trace_lookup;
struct trace_early;

/* The user of found traces, who prefetches the blocks that they name.  This folder only finds
 * traces; it does not decide what is prefetched. */
struct trace_user {
	/* Called when a trace of the image was found, which the prefetch has to follow from now
	 * on; trace NULL: none was found for the command of the image's config.  `for_start`: a
	 * container waits, or did.  Called on a thread of the searches, which may block.  NULL:
	 * found traces have no user. */
	void (*found)(void *arg, struct image *i, const struct trace *t,
		      bool for_start);
	void *arg;
};

/* Open the stores of the configuration, without contacting them.  `is_ending`: bootseerd ends.
 * All is borrowed, but the user. */
int trace_lookup_open(const struct node_config *cfg, struct origins *origins,
		      const atomic_bool *is_ending,
		      const struct trace_user *user, struct trace_lookup **ret,
		      struct error *err) MUST_CHECK;
/* Waits for lookups under way. */
void trace_lookup_close(struct trace_lookup *t); /* NULL is allowed */

struct trace_answer {
	bool found;
	enum trace_match match;
	bool wanted; /* the stores want more recordings of this start */
	/* of the found trace: time to ready, else its window */
	uint32_t length_ms;
	/* The key that was asked for; "": not known. */
	char workload[TRACE_WORKLOAD_MAX + 1];
};

/* The repository of an image, and its manifest. */
struct lookup_place {
	const char *host, *repo, *name; /* name: "host/repo" */
	bool plain_http;
	struct digest image; /* the ordinary image's manifest */
};

/*
 * Begin to search in the background for the trace of an image's own entry point and command,
 * while its metadata is being fetched; `config` is its config.  NULL: not possible, so
 * trace_lookup_prepare() has to search.
 */
struct trace_early *trace_early_begin(struct trace_lookup *t,
				      const struct lookup_place *p,
				      const struct buf *config) MUST_CHECK;
/* Drop the search: the image could not be fetched.  NULL is allowed. */
void trace_early_drop(struct trace_early *e);

/*
 * The image is on the node: continue the search `early`, which is taken, or begin one (NULL);
 * the user then prefetches what is found.  To be called as early as possible.
 */
void trace_lookup_prepare(struct trace_lookup *t, struct image *i,
			  struct trace_early *early);

/*
 * Find the trace for a start. `workload` NULL is that of trace_lookup_prepare(). When this
 * returns, the prefetch is under way. Waits for at most NODE_TRACE_LOOKUP_NS: -ETIMEDOUT, and
 * the search goes on in the background.
 */
int trace_lookup_find(struct trace_lookup *t, struct image *i,
		      const char *workload, struct trace_answer *ret,
		      struct error *err) MUST_CHECK;

/*
 * Wait until the trace that trace_lookup_prepare() searches for was found, and the prefetch of
 * its hot set has begun, for a caller that orders a prefetch without a start.  The rest of the
 * image is not prefetched by this.  Waits as trace_lookup_find().
 */
void trace_lookup_await_hot(struct trace_lookup *t, struct image *i);

/* Look up as trace_lookup_find(), for a start that is over: nothing is prefetched. */
int trace_lookup_peek(struct trace_lookup *t, struct image *i,
		      const char *workload, struct trace_answer *ret,
		      struct error *err) MUST_CHECK;

/* Is a trace of any workload of the image known?  Waits as trace_lookup_find(). */
bool trace_lookup_has_any(struct trace_lookup *t, struct image *i);

/* Keep a recording: in the folder now, in other stores when they can be
 * reached. */
int trace_keep(struct trace_lookup *t, struct image *i,
	       const struct trace *trace, struct error *err) MUST_CHECK;

/* Try to send the waiting recordings again; called from time to time.  Never blocks. */
void trace_send_due(struct trace_lookup *t);

struct trace_lookup_stats {
	/* lookups: searches; failed: stores that failed */
	uint64_t lookups, found, failed;
	uint64_t sent, waiting; /* numbers of recordings */
};
void trace_lookup_get_stats(struct trace_lookup *t,
			    struct trace_lookup_stats *ret);

#endif
