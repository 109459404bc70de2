// SPDX-License-Identifier: Apache-2.0
/*
 * A thread that reads the list of pods on this node every 10 s, and emits the stages that they went
 * through before they ran (pod_stages.h) like any of the node's own processes.
 */
#ifndef BOOTSEER_PROFILER_FOLLOW_POD_WATCH_H
#define BOOTSEER_PROFILER_FOLLOW_POD_WATCH_H

#include "common/error.h"

struct pod_watch;

struct pod_watch_config {
	const char *from; /* a file, or an https:// or http:// URL */
	/* file with the bearer token for the URL; NULL: none */
	const char *token_file;
	/* PEM file of authorities; NULL: the system's */
	const char *ca_file;
	const char *node;
	const char *events; /* folder for events of the node's own processes */
};

/* Create the watch; no request is made yet. The texts are borrowed. */
int pod_watch_new(const struct pod_watch_config *cfg, struct pod_watch **ret,
		  struct error *err) MUST_CHECK;
/* Read the list once, now. Must not be called while the thread runs. */
int pod_watch_once(struct pod_watch *w, struct error *err) MUST_CHECK;
int pod_watch_start(struct pod_watch *w, struct error *err) MUST_CHECK;
/* Free the watch, and end its thread if it runs. NULL is allowed. */
void pod_watch_free(struct pod_watch *w);

#endif
