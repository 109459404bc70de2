// SPDX-License-Identifier: Apache-2.0
/*
 * Where the traces of a node come from and go to: the service, OCI artifacts
 * beside images, a folder.  What was found out is remembered per image and
 * workload, so that a start rarely waits for it.  Any thread.
 */
#ifndef BOOTSEER_NODE_TRACES_H
#define BOOTSEER_NODE_TRACES_H

#include "snapshotter/node/node.h"

struct traces;
struct traces_early;
struct plan; /* what is known of one workload of an image */

/* Stores as the configuration says; nothing is contacted. */
int traces_open(struct node *n, struct traces **ret,
		struct error *err) MUST_CHECK;
/* Waits for lookups under way. */
void traces_close(struct traces *t); /* NULL is allowed */

struct trace_answer {
	bool found;
	enum trace_match match;
	bool wanted;        /* more recordings of this start are */
	uint32_t length_ms; /* of the found one: to ready, else its window */
	/* The key that was asked for, "" when it is not known. */
	char workload[TRACE_WORKLOAD_MAX + 1];
};

/* Where an image is from, and which one it is. */
struct trace_place {
	const char *host, *repo, *name; /* name: "host/repo" */
	bool plain_http;
	struct digest image; /* the ordinary image's manifest */
};

/*
 * Begin to look, in the background, for what an image's own entry point and
 * command will read, while its metadata is on the way; `config` is its config.
 * NULL when that cannot be: then traces_prepare() looks.
 */
struct traces_early *traces_begin(struct traces *t, const struct trace_place *p,
				  const struct buf *config) MUST_CHECK;
/* The image does not come.  NULL is allowed. */
void traces_drop(struct traces_early *e);

/*
 * The image is there: go on with what was begun, which is taken, or begin now
 * (NULL); then prefetch what is found as --prefetch says.  To be called as early
 * as possible.
 */
void traces_prepare(struct traces *t, struct image *i,
		    struct traces_early *early);

/*
 * What is there for a start?  `workload` NULL is that of traces_prepare().  The
 * prefetch is under way when this returns.  Waits for at most
 * --trace-lookup-timeout: -ETIMEDOUT, and the search goes on in the background.
 */
int traces_find(struct traces *t, struct image *i, const char *workload,
		struct trace_answer *ret, struct error *err) MUST_CHECK;

/*
 * For somebody who asks for a prefetch, not for a start: what traces_prepare()
 * looks for is found, and the prefetch of its hot set under way, when this
 * returns; the rest is not begun.  Waits as traces_find().
 */
void traces_await_hot(struct traces *t, struct image *i);

/* As traces_find() for a start that is over: nothing is prefetched. */
int traces_look_up(struct traces *t, struct image *i, const char *workload,
		   struct trace_answer *ret, struct error *err) MUST_CHECK;

/* Is a trace known, of whatever workload?  Waits as traces_find(). */
bool traces_has_any(struct traces *t, struct image *i);

/* Keep a recording: in the folder now, in other stores when they can be
 * reached. */
int traces_put(struct traces *t, struct image *i, const struct trace *trace,
	       struct error *err) MUST_CHECK;

/* Try again to send what waits; to be called now and then.  Never blocks. */
void traces_tick(struct traces *t);

struct traces_stats {
	uint64_t lookups, found, failed; /* searches; stores that failed */
	uint64_t sent, waiting;          /* recordings */
};
void traces_get_stats(struct traces *t, struct traces_stats *ret);

/* Of an image that goes. */
void plans_free(struct plan *list);

#endif
