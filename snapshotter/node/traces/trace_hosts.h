// SPDX-License-Identifier: Apache-2.0
/*
 * Registries that are asked for traces, and how they answered. A few threads search for all
 * images of the node, and a tenant's registry may be arbitrarily slow.  So registries that are
 * not known to answer share separate threads, and a registry whose search timed out is not
 * asked for a while. Not thread-safe; the caller passes the time.
 */
#ifndef BOOTSEER_NODE_TRACE_HOSTS_H
#define BOOTSEER_NODE_TRACE_HOSTS_H

#include <stdbool.h>
#include <stdint.h>

#define TRACE_HOST_NAME_MAX 256
/* Entries of the table.  A known host is never replaced by an unknown one. */
#define TRACE_HOSTS_MAX 64

struct trace_host {
	char name[TRACE_HOST_NAME_MAX]; /* "": the entry is free */
	unsigned int n_searches;        /* searches under way */
	int64_t asked_ns;               /* when it was last asked */
	/* first answer in a row; 0: no answer yet */
	int64_t answered_ns;
	int64_t down_until_ns;
};

struct trace_hosts {
	struct trace_host v[TRACE_HOSTS_MAX];
};

/* Has `host` ("HOST[:PORT]") answered in time for long? */
bool trace_hosts_know(struct trace_hosts *h, const char *host, int64_t now);

/* Begin a search at the host; false: it is not to be asked now.  `ret` is for
 * trace_hosts_end(); NULL when the host has no entry. */
bool trace_hosts_begin(struct trace_hosts *h, const char *host, int64_t now,
		       struct trace_host **ret);

/* The search is over; `late`: it timed out.  NULL is allowed. */
void trace_hosts_end(struct trace_host *v, bool late, int64_t now);

#endif
