// SPDX-License-Identifier: Apache-2.0
/*
 * The image stages of a start, said to bootseer-events (docs/profiler.md).  Any thread;
 * it writes to a file of tmpfs and waits for nobody.
 */
#ifndef BOOTSEER_NODE_START_EVENTS_H
#define BOOTSEER_NODE_START_EVENTS_H

#include "snapshotter/node/starts/bundle.h"

/* Events that are written in an hour; a namespace has half of what others leave. */
#define START_EVENTS_HOUR_MAX 20000u

struct start_events;

/* Behind the name of --run: where bootseer-events looks, when --run has its default. */
#define START_EVENTS_SUFFIX "-events"

/* The folder may come later. */
int start_events_new(const char *dir, struct start_events **ret,
		     struct error *err) MUST_CHECK;
void start_events_free(struct start_events *e); /* NULL is allowed */

/* Monotonic times; 0: there is none. */
struct stage_span {
	int64_t begin_ns, end_ns;
	uint64_t facts[STAGE_FACTS];
};

struct start_stages {
	const struct start_owner *owner;
	const char *image; /* its name; NULL: not known */
	/* prepare: a registry was asked; resolve: the first part of that; hot: its
	 * hot set came; start: from begin to ready, or without end. */
	struct stage_span prepare, resolve, hot, start;
};

/*
 * A start without owner is nobody's business.  As soon as the owner is known: what came
 * before the container, and that it starts, so that a start can be looked at while it
 * runs; then, when it is over, the rest.
 */
void start_events_begin(struct start_events *e, const struct start_stages *s);
void start_events_end(struct start_events *e, const struct start_stages *s);

#endif
