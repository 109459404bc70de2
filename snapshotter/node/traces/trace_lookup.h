// SPDX-License-Identifier: Apache-2.0
/*
 * Where the traces of a node come from and go to: the service, OCI artifacts
 * beside images, a folder.  What was found out is remembered per image and
 * workload, so that a start rarely waits for it.  Any thread.
 */
#ifndef BOOTSEER_NODE_TRACE_LOOKUP_H
#define BOOTSEER_NODE_TRACE_LOOKUP_H

#include "recorder/recorder.h"
#include "snapshotter/node/images/images.h"
#include "snapshotter/node/images/origin.h"

/* The workload key of what reads a mounted environment. */
#define ENVIRONMENT_WORKLOAD "environment"

struct trace_lookup;
struct trace_early;

/* Has what traces name on the node.  This room finds traces and tells; it does not
 * decide what is prefetched. */
struct trace_user {
	/* A trace of the image was found, which is what the prefetch is to follow
	 * from now on; NULL: none was, for what the image's own config starts.
	 * `for_start`: a container waits, or has.  On a thread of the searches, which
	 * may block.  NULL: nobody uses them. */
	void (*found)(void *arg, struct image *i, const struct trace *t,
		      bool for_start);
	void *arg;
};

/* Stores as the configuration says; nothing is contacted.  `is_ending`: bootseerd ends.  All
 * is borrowed, but the user. */
int trace_lookup_open(const struct node_config *cfg, struct origins *origins,
		      const atomic_bool *is_ending,
		      const struct trace_user *user, struct trace_lookup **ret,
		      struct error *err) MUST_CHECK;
/* Waits for lookups under way. */
void trace_lookup_close(struct trace_lookup *t); /* NULL is allowed */

struct trace_answer {
	bool found;
	enum trace_match match;
	bool wanted;        /* more recordings of this start are */
	uint32_t length_ms; /* of the found one: to ready, else its window */
	/* The key that was asked for, "" when it is not known. */
	char workload[TRACE_WORKLOAD_MAX + 1];
};

/* Where an image is from, and which one it is. */
struct lookup_place {
	const char *host, *repo, *name; /* name: "host/repo" */
	bool plain_http;
	struct digest image; /* the ordinary image's manifest */
};

/*
 * Begin to look, in the background, for what an image's own entry point and
 * command will read, while its metadata is on the way; `config` is its config.
 * NULL when that cannot be: then trace_lookup_prepare() looks.
 */
struct trace_early *trace_early_begin(struct trace_lookup *t,
				      const struct lookup_place *p,
				      const struct buf *config) MUST_CHECK;
/* The image does not come.  NULL is allowed. */
void trace_early_drop(struct trace_early *e);

/*
 * The image is there: go on with what was begun, which is taken, or begin now
 * (NULL); then the user prefetches what is found.  To be called as early
 * as possible.
 */
void trace_lookup_prepare(struct trace_lookup *t, struct image *i,
			  struct trace_early *early);

/*
 * Find the trace for a start. `workload` NULL is that of
 * trace_lookup_prepare(). The prefetch is under way when this returns. Waits
 * for at most NODE_TRACE_LOOKUP_NS: -ETIMEDOUT, and the search goes on in the
 * background.
 */
int trace_lookup_find(struct trace_lookup *t, struct image *i,
		      const char *workload, struct trace_answer *ret,
		      struct error *err) MUST_CHECK;

/*
 * For somebody who asks for a prefetch, not for a start: what trace_lookup_prepare()
 * looks for is found, and the prefetch of its hot set under way, when this
 * returns; the rest is not begun.  Waits as trace_lookup_find().
 */
void trace_lookup_await_hot(struct trace_lookup *t, struct image *i);

/* As trace_lookup_find() for a start that is over: nothing is prefetched. */
int trace_lookup_peek(struct trace_lookup *t, struct image *i,
		      const char *workload, struct trace_answer *ret,
		      struct error *err) MUST_CHECK;

/* Is a trace known, of whatever workload?  Waits as trace_lookup_find(). */
bool trace_lookup_has_any(struct trace_lookup *t, struct image *i);

/* Keep a recording: in the folder now, in other stores when they can be
 * reached. */
int trace_keep(struct trace_lookup *t, struct image *i,
	       const struct trace *trace, struct error *err) MUST_CHECK;

/* Try again to send what waits; to be called now and then.  Never blocks. */
void trace_send_due(struct trace_lookup *t);

struct trace_lookup_stats {
	uint64_t lookups, found, failed; /* searches; stores that failed */
	uint64_t sent, waiting;          /* recordings */
};
void trace_lookup_get_stats(struct trace_lookup *t,
			    struct trace_lookup_stats *ret);

#endif
