// SPDX-License-Identifier: Apache-2.0
/*
 * Writes the image stages of a start as events for bootseer-events (docs/profiler.md).  Any
 * thread; it writes to a file of tmpfs and never waits.
 */
#ifndef BOOTSEER_NODE_START_EVENTS_H
#define BOOTSEER_NODE_START_EVENTS_H

#include "snapshotter/node/starts/bundle.h"

/* Events written in one hour; a namespace may have half of what the others have left. */
#define START_EVENTS_HOUR_MAX 20000u

struct start_events;

/* The events' folder is the path of --run with this suffix; bootseer-events reads it if --run
 * has its default. */
#define START_EVENTS_SUFFIX "-events"

/* The folder may be made later. */
int start_events_new(const char *dir, struct start_events **ret,
		     struct error *err) MUST_CHECK;
void start_events_free(struct start_events *e); /* NULL is allowed */

/* Monotonic times; 0: not known. */
struct stage_span {
	int64_t begin_ns, end_ns;
	uint64_t facts[STAGE_FACTS];
};

struct start_stages {
	const struct start_owner *owner;
	const char *image; /* its name; NULL: not known */
	/* prepare: the image was prepared with a registry; resolve: the registry named the
	 * manifest; hot: the hot set was fetched; start: from begin until ready, or without an
	 * end. */
	struct stage_span prepare, resolve, hot, start;
};

/*
 * Events are written only for a start with an owner.  _begin() is called as soon as the owner
 * is known, so that the start can be watched while it runs: it writes the stages before the
 * container and the start's begin.  _end() writes the rest when the start is over.
 */
void start_events_begin(struct start_events *e, const struct start_stages *s);
void start_events_end(struct start_events *e, const struct start_stages *s);

#endif
