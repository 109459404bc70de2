// SPDX-License-Identifier: Apache-2.0
/*
 * A thread that asks, each 10 s, what pods are on this node, and says the stages that
 * they went through before they ran (pod_stages.h) as one of the node's own processes.
 */
#ifndef BOOTSEER_PROFILER_FOLLOW_POD_WATCH_H
#define BOOTSEER_PROFILER_FOLLOW_POD_WATCH_H

#include "common/error.h"

struct pod_watch;

struct pod_watch_config {
	const char *from;       /* a file, or an https:// or http:// URL */
	const char *token_file; /* bearer token for the URL; NULL */
	const char *ca_file;    /* PEM; NULL: the system's */
	const char *node;
	const char *events; /* the folder of the node's own events */
};

/* Asks nothing yet.  The texts are kept. */
int pod_watch_new(const struct pod_watch_config *cfg, struct pod_watch **ret,
		  struct error *err) MUST_CHECK;
/* Ask now.  Not while the thread runs. */
int pod_watch_once(struct pod_watch *w, struct error *err) MUST_CHECK;
int pod_watch_start(struct pod_watch *w, struct error *err) MUST_CHECK;
/* Ends the thread, if there is one.  NULL is allowed. */
void pod_watch_free(struct pod_watch *w);

#endif
