// SPDX-License-Identifier: Apache-2.0
/*
 * Registries that are asked for traces, and how they did. Few threads search,
 * for all images of the node, and a tenant's registry may be as slow as it
 * likes: those that have not proved themselves have threads of their own, and a
 * registry whose search was given up is left alone for a while. Not
 * thread-safe; the caller says what time it is.
 */
#ifndef BOOTSEER_NODE_TRACE_HOSTS_H
#define BOOTSEER_NODE_TRACE_HOSTS_H

#include <stdbool.h>
#include <stdint.h>

#define TRACE_HOST_NAME_MAX 256
/* Remembered.  A known one never gives way to one that is not. */
#define TRACE_HOSTS_MAX 64

struct trace_host {
	char name[TRACE_HOST_NAME_MAX]; /* "" is a free place */
	unsigned int n_searches;        /* under way */
	int64_t asked_ns;               /* last */
	int64_t answered_ns;            /* first in a row; 0: did not yet */
	int64_t down_until_ns;
};

struct trace_hosts {
	struct trace_host v[TRACE_HOSTS_MAX];
};

/* Has `host` ("HOST[:PORT]") answered in time for long? */
bool trace_hosts_know(struct trace_hosts *h, const char *host, int64_t now);

/* Begin a search in it, or false: it is left alone now.  `ret` is for
 * trace_hosts_end(), and NULL when it is not remembered. */
bool trace_hosts_begin(struct trace_hosts *h, const char *host, int64_t now,
		       struct trace_host **ret);

/* The search is over; `late`: it was given up for its time.  NULL is allowed. */
void trace_hosts_end(struct trace_host *v, bool late, int64_t now);

#endif
